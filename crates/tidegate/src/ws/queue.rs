//! What waits to be sent to a client.

use std::collections::VecDeque;
use std::pin::pin;
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

impl Waiting {
    fn put(&mut self, message: Bytes) {
        self.bytes = self.bytes.saturating_add(message.len());
        self.messages.push_back(message);
    }

    fn is_pressed(&self, bounds: Bounds) -> bool {
        self.messages.len() > bounds.messages / 2 || self.bytes > bounds.bytes / 2
    }
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
            self.eased.notify_waiters();
            Err(Refused::Overflown)
        } else {
            waiting.put(message);
            Ok(())
        };
        drop(waiting);
        self.filled.notify_one();
        pushed
    }

    /// Puts a message in, unless the client is behind already, and says whether it did. `first` is done right before that.
    pub(super) fn offer(&self, message: Bytes, first: impl FnOnce()) -> Result<bool, Refused> {
        let mut waiting = self.lock();
        match waiting.state {
            State::Open if waiting.is_pressed(self.bounds) => return Ok(false),
            State::Open => {}
            State::Closed => return Err(Refused::Closed),
            State::Overflown => return Err(Refused::Overflown),
        }
        first();
        waiting.put(message);
        drop(waiting);
        self.filled.notify_one();
        Ok(true)
    }

    /// Puts a message in as soon as the client is not behind: for answers that come when they come, and many at once.
    pub(super) async fn deliver(&self, message: Bytes, first: impl FnOnce()) {
        let mut first = Some(first);
        loop {
            let mut eased = pin!(self.eased.notified());
            // Waited for before it is looked at, so that nothing slips through in between.
            eased.as_mut().enable();
            match self.offer(message.clone(), || first.take().into_iter().for_each(|first| first())) {
                Ok(false) => eased.await,
                // Nobody is left to be told that nobody is there.
                Ok(true) | Err(_) => return,
            }
        }
    }

    /// Whether more than half of it is full: time to stop asking for more work. Not when nothing is sent any more.
    fn is_pressed(&self) -> bool {
        let waiting = self.lock();
        waiting.state == State::Open && waiting.is_pressed(self.bounds)
    }

    /// Ends when no more than half of it is full, or nothing is sent any more.
    pub(super) async fn eased(&self) {
        loop {
            let mut eased = pin!(self.eased.notified());
            eased.as_mut().enable();
            if !self.is_pressed() {
                return;
            }
            eased.await;
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

    /// Nothing goes in from now on. What is there is still sent.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        if waiting.state == State::Open {
            waiting.state = State::Closed;
        }
        drop(waiting);
        self.filled.notify_one();
        self.eased.notify_waiters();
    }

    /// Nothing goes in from now on, and what is there is sent to nobody.
    pub(super) fn abandon(&self) {
        self.close();
        *self.lock() = Waiting { state: State::Closed, ..Waiting::default() };
    }

    /// Has what the socket itself has to say sent as well.
    pub(super) fn nudge(&self) {
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
        self.eased.notify_waiters();
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
        let taken: Vec<_> = (0..5).map(|_| queue.offer(message(1), || ()).unwrap()).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        queue.push(message(1)).unwrap();
        assert!(queue.is_pressed());
        assert_eq!(queue.offer(message(90), || panic!("not put in")), Ok(false), "however long it is");
        queue.pop();
        queue.pop();
        assert!(!queue.is_pressed());
        assert_eq!(queue.offer(message(1), || ()), Ok(true));
        queue.close();
        assert!(!queue.is_pressed(), "nobody waits for a queue that nobody empties");
    }
}
