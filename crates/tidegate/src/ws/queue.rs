//! What waits to be sent to a client.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::Notify;

use super::lock::lock;

/// The bounds of what waits to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

/// What waits to be sent to a client: bounded, because a client that does not read would fill the memory otherwise.
pub(super) struct Queue {
    bounds: Bounds,
    waiting: Mutex<Waiting>,
    /// Something is there to be sent, or will never be.
    filled: Notify,
    /// There is room again.
    eased: Notify,
    /// Too much was there.
    overflown: Notify,
}

#[derive(Default)]
struct Waiting {
    messages: VecDeque<Bytes>,
    bytes: usize,
    state: State,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// Nothing goes in any more. What is there is still sent.
    Closed,
    /// The client does not read: what was there is gone.
    Overflown,
}

/// A message could not be put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The connection is closed, or is being closed.
    Closed,
    /// The client does not read, and is disconnected for it.
    Overflown,
}

/// What there is to send next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Message(Bytes),
    /// Nothing for now.
    Empty,
    /// Nothing any more.
    End,
}

impl Queue {
    pub(super) fn new(bounds: Bounds) -> Self {
        Queue {
            bounds,
            waiting: Mutex::default(),
            filled: Notify::new(),
            eased: Notify::new(),
            overflown: Notify::new(),
        }
    }

    /// Puts a message in that has to arrive. When there is no room for it, the client is disconnected.
    pub(super) fn push(&self, message: Bytes) -> Result<(), Refused> {
        let mut waiting = self.lock();
        match waiting.state {
            State::Open => {}
            State::Closed => return Err(Refused::Closed),
            State::Overflown => return Err(Refused::Overflown),
        }
        let bytes = waiting.bytes.saturating_add(message.len());
        // One that is longer than all that may wait is sent all the same, when nothing else waits.
        let is_too_much = bytes > self.bounds.bytes && !waiting.messages.is_empty();
        let pushed = if waiting.messages.len() >= self.bounds.messages || is_too_much {
            *waiting = Waiting { state: State::Overflown, ..Waiting::default() };
            self.overflown.notify_one();
            Err(Refused::Overflown)
        } else {
            waiting.bytes = bytes;
            waiting.messages.push_back(message);
            Ok(())
        };
        drop(waiting);
        self.filled.notify_one();
        pushed
    }

    /// Puts a message in that may be dropped, unless the client is behind already.
    pub(super) fn offer(&self, message: Bytes) -> Result<bool, Refused> {
        if self.is_pressed() { Ok(false) } else { self.push(message).map(|()| true) }
    }

    /// Whether more than half of it is full: time to stop asking for more work.
    pub(super) fn is_pressed(&self) -> bool {
        let waiting = self.lock();
        waiting.messages.len() > self.bounds.messages / 2 || waiting.bytes > self.bounds.bytes / 2
    }

    /// Ends when no more than half of it is full.
    pub(super) async fn eased(&self) {
        while self.is_pressed() {
            self.eased.notified().await;
        }
    }

    /// Ends when too much was there.
    pub(super) async fn overflown(&self) {
        self.overflown.notified().await;
    }

    /// Whether messages still go in.
    pub(super) fn is_open(&self) -> bool {
        self.lock().state == State::Open
    }

    /// Nothing goes in from now on.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        if waiting.state == State::Open {
            waiting.state = State::Closed;
        }
        drop(waiting);
        self.filled.notify_one();
    }

    /// What there is to send now.
    pub(super) fn pop(&self) -> Next {
        let mut waiting = self.lock();
        let next = match waiting.messages.pop_front() {
            Some(message) => {
                waiting.bytes -= message.len();
                Next::Message(message)
            }
            None => match waiting.state {
                State::Open => Next::Empty,
                State::Closed | State::Overflown => Next::End,
            },
        };
        drop(waiting);
        self.eased.notify_one();
        next
    }

    /// Ends when there may be something to send.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(messages: usize, bytes: usize) -> Queue {
        Queue::new(Bounds { messages, bytes })
    }

    fn message(length: usize) -> Bytes {
        Bytes::from(vec![b'x'; length])
    }

    #[test]
    fn what_went_in_comes_out_in_order() {
        let queue = queue(3, 100);
        for length in [1, 2, 3] {
            queue.push(message(length)).unwrap();
        }
        queue.close();
        assert_eq!(queue.push(message(1)), Err(Refused::Closed));
        for length in [1, 2, 3] {
            assert_eq!(queue.pop(), Next::Message(message(length)));
        }
        assert_eq!(queue.pop(), Next::End);
    }

    #[test]
    fn one_message_too_many_ends_it() {
        let queue = queue(2, 100);
        queue.push(message(1)).unwrap();
        queue.push(message(1)).unwrap();
        assert_eq!(queue.push(message(1)), Err(Refused::Overflown));
        assert_eq!(queue.pop(), Next::End, "nobody reads it anyway");
        assert_eq!(queue.push(message(1)), Err(Refused::Overflown));
    }

    #[test]
    fn bytes_count_as_well() {
        let queue = queue(100, 10);
        queue.push(message(11)).unwrap();
        assert_eq!(queue.pop(), Next::Message(message(11)), "one alone may be longer");
        queue.push(message(6)).unwrap();
        queue.push(message(4)).unwrap();
        assert_eq!(queue.push(message(1)), Err(Refused::Overflown));
    }

    #[test]
    fn what_may_be_dropped_takes_half_the_room_at_most() {
        let queue = queue(4, 100);
        let taken: Vec<_> = (0..5).map(|_| queue.offer(message(1)).unwrap()).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        queue.push(message(1)).unwrap();
        assert!(queue.is_pressed());
        queue.pop();
        queue.pop();
        assert!(!queue.is_pressed());
        assert_eq!(queue.offer(message(1)), Ok(true));
    }
}
