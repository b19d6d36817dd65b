//! The bounded queue of messages to one client.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::Notify;

use super::lock;

/// The capacity of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueBounds {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

/// Messages to one client, bounded because a client that does not read would fill the memory.
pub(super) struct SendQueue {
    bounds: QueueBounds,
    state: Mutex<QueueState>,
    /// Notifies that a message is there, or that none will come.
    readable: Notify,
    /// Notifies that at most half of the queue is full.
    room: Notify,
    /// Notifies that a message did not fit.
    overflowed: Notify,
}

#[derive(Default)]
struct QueueState {
    messages: VecDeque<Bytes>,
    bytes: usize,
    phase: Phase,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// Accepts no messages. Queued ones are still sent.
    Closed,
    /// The client does not read. Queued messages are dropped.
    Overflowed,
}

impl QueueState {
    fn push_back(&mut self, message: Bytes) {
        self.bytes = self.bytes.saturating_add(message.len());
        self.messages.push_back(message);
    }

    fn is_half_full(&self, bounds: QueueBounds) -> bool {
        self.messages.len() > bounds.messages / 2 || self.bytes > bounds.bytes / 2
    }
}

/// The error of a message that could not be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PushError {
    /// The connection is closed or closing.
    Closed,
    /// The client does not read and is disconnected.
    Overflowed,
}

/// The next message to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Dequeued {
    Message(Bytes),
    /// There is no message now.
    Empty,
    /// There will be no more messages.
    End,
}

impl SendQueue {
    pub(super) fn new(bounds: QueueBounds) -> Self {
        SendQueue {
            bounds,
            state: Mutex::default(),
            readable: Notify::new(),
            room: Notify::new(),
            overflowed: Notify::new(),
        }
    }

    /// Queues a message that must arrive. If it does not fit, the client is disconnected.
    pub(super) fn push(&self, message: Bytes) -> Result<(), PushError> {
        let mut state = self.lock();
        match state.phase {
            Phase::Open => {}
            Phase::Closed => return Err(PushError::Closed),
            Phase::Overflowed => return Err(PushError::Overflowed),
        }
        let bytes = state.bytes.saturating_add(message.len());
        // A message above the byte bound is accepted when nothing else is queued.
        let is_too_large = bytes > self.bounds.bytes && !state.messages.is_empty();
        let pushed = if state.messages.len() >= self.bounds.messages || is_too_large {
            *state = QueueState { phase: Phase::Overflowed, ..QueueState::default() };
            self.overflowed.notify_one();
            self.room.notify_waiters();
            Err(PushError::Overflowed)
        } else {
            state.push_back(message);
            Ok(())
        };
        drop(state);
        self.readable.notify_one();
        pushed
    }

    /// Queues a message if at most half of the queue is full, and returns whether it did. `first` runs right before.
    pub(super) fn push_if_room(&self, message: Bytes, first: impl FnOnce()) -> Result<bool, PushError> {
        let mut state = self.lock();
        match state.phase {
            Phase::Open if state.is_half_full(self.bounds) => return Ok(false),
            Phase::Open => {}
            Phase::Closed => return Err(PushError::Closed),
            Phase::Overflowed => return Err(PushError::Overflowed),
        }
        first();
        state.push_back(message);
        drop(state);
        self.readable.notify_one();
        Ok(true)
    }

    /// Queues a message as soon as at most half of the queue is full: for replies, of which many may come at once.
    pub(super) async fn push_when_room(&self, message: Bytes, first: impl FnOnce()) {
        let mut first = Some(first);
        loop {
            let mut room = pin!(self.room.notified());
            // Registered before checking, so that no notification is missed.
            room.as_mut().enable();
            match self.push_if_room(message.clone(), || first.take().into_iter().for_each(|first| first())) {
                Ok(false) => room.await,
                // A closed connection has no client to tell.
                Ok(true) | Err(_) => return,
            }
        }
    }

    /// Returns whether more than half of it is full, so that no more work should be accepted. Never for a closed queue,
    /// which nothing drains.
    fn is_half_full(&self) -> bool {
        let state = self.lock();
        state.phase == Phase::Open && state.is_half_full(self.bounds)
    }

    /// Waits until at most half of it is full, or the queue is closed.
    pub(super) async fn wait_for_room(&self) {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            if !self.is_half_full() {
                return;
            }
            room.await;
        }
    }

    /// Waits for an overflow.
    pub(super) async fn overflowed(&self) {
        self.overflowed.notified().await;
    }

    /// Returns whether the queue takes messages.
    pub(super) fn is_open(&self) -> bool {
        self.lock().phase == Phase::Open
    }

    /// Accepts no messages from now on. Queued ones are still sent.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Closed;
        }
        drop(state);
        self.readable.notify_one();
        self.room.notify_waiters();
    }

    /// Accepts no messages from now on, and drops the queued ones.
    pub(super) fn discard(&self) {
        self.close();
        *self.lock() = QueueState { phase: Phase::Closed, ..QueueState::default() };
    }

    /// Wakes the writer to flush what the socket itself has queued.
    pub(super) fn wake_writer(&self) {
        self.readable.notify_one();
    }

    /// Returns the next message.
    pub(super) fn pop(&self) -> Dequeued {
        let mut state = self.lock();
        let next = match state.messages.pop_front() {
            Some(message) => {
                state.bytes -= message.len();
                Dequeued::Message(message)
            }
            None => match state.phase {
                Phase::Open => Dequeued::Empty,
                Phase::Closed | Phase::Overflowed => Dequeued::End,
            },
        };
        drop(state);
        self.room.notify_waiters();
        next
    }

    /// Waits until there may be a message.
    pub(super) async fn wait_for_messages(&self) {
        self.readable.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(messages: usize, bytes: usize) -> SendQueue {
        SendQueue::new(QueueBounds { messages, bytes })
    }

    fn message(length: usize) -> Bytes {
        Bytes::from(vec![b'x'; length])
    }

    #[test]
    fn messages_are_sent_in_order() {
        let queue = queue(3, 100);
        for length in [1, 2, 3] {
            queue.push(message(length)).unwrap();
        }
        queue.close();
        assert_eq!(queue.push(message(1)), Err(PushError::Closed));
        for length in [1, 2, 3] {
            assert_eq!(queue.pop(), Dequeued::Message(message(length)));
        }
        assert_eq!(queue.pop(), Dequeued::End);
    }

    #[test]
    fn message_over_the_capacity_ends_the_queue() {
        let queue = queue(2, 100);
        queue.push(message(1)).unwrap();
        queue.push(message(1)).unwrap();
        assert_eq!(queue.push(message(1)), Err(PushError::Overflowed));
        assert_eq!(queue.pop(), Dequeued::End, "nobody reads it anyway");
        assert_eq!(queue.push(message(1)), Err(PushError::Overflowed));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let queue = queue(100, 10);
        queue.push(message(11)).unwrap();
        assert_eq!(queue.pop(), Dequeued::Message(message(11)), "one alone may be longer");
        queue.push(message(6)).unwrap();
        queue.push(message(4)).unwrap();
        assert_eq!(queue.push(message(1)), Err(PushError::Overflowed));
    }

    #[test]
    fn optional_messages_take_at_most_half_of_the_queue() {
        let queue = queue(4, 100);
        let taken: Vec<_> = (0..5).map(|_| queue.push_if_room(message(1), || ()).unwrap()).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        queue.push(message(1)).unwrap();
        assert!(queue.is_half_full());
        assert_eq!(queue.push_if_room(message(90), || panic!("not put in")), Ok(false), "however long it is");
        queue.pop();
        queue.pop();
        assert!(!queue.is_half_full());
        assert_eq!(queue.push_if_room(message(1), || ()), Ok(true));
        queue.close();
        assert!(!queue.is_half_full(), "nobody waits for a queue that nobody empties");
    }
}
