//! Topics of this process, and their subscribers.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use super::queue::SendQueue;
use super::{ConnectionId, ErrorCode, MessageError, lock};

/// Topic names often come from clients.
const MAX_TOPIC_BYTES: usize = 256;

/// The queues of a topic's subscribers.
type Subscribers = HashMap<ConnectionId, Arc<SendQueue>>;

/// All topics of this process.
#[derive(Default)]
pub(super) struct Topics(Mutex<HashMap<Arc<str>, Subscribers>>);

impl Topics {
    /// Queues a message for each subscriber except one, and returns how many took it. A subscriber that does not read
    /// is disconnected and delays no other.
    pub(super) fn publish(&self, topic: &str, message: &Bytes, except: Option<&ConnectionId>) -> usize {
        let topics = self.lock();
        let subscribers = topics.get(topic).into_iter().flatten().filter(|(id, _)| Some(*id) != except);
        let queues: Vec<_> = subscribers.map(|(_, queue)| Arc::clone(queue)).collect();
        // Unlocked, so that a large topic delays no other.
        drop(topics);
        queues.iter().filter(|queue| queue.push(message.clone()).is_ok()).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Subscribers>> {
        lock(&self.0)
    }
}

/// The topics of one connection, left on drop.
pub(super) struct Subscriptions {
    topics: Arc<Topics>,
    connection: ConnectionId,
    queue: Arc<SendQueue>,
    max: usize,
    names: HashSet<Arc<str>>,
}

impl Subscriptions {
    pub(super) fn new(topics: Arc<Topics>, connection: ConnectionId, queue: Arc<SendQueue>, max: usize) -> Self {
        Subscriptions { topics, connection, queue, max, names: HashSet::new() }
    }

    /// Subscribes, and returns whether that is new.
    pub(super) fn add(&mut self, topic: &str) -> Result<bool, MessageError> {
        if self.names.contains(topic) {
            return Ok(false);
        }
        if topic.len() > MAX_TOPIC_BYTES {
            return Err(MessageError::invalid(format!("A topic has {MAX_TOPIC_BYTES} bytes at most")));
        }
        if self.names.len() >= self.max {
            return Err(
                MessageError::new(ErrorCode::FailedPrecondition, "Too many topics").with_detail("limit", self.max)
            );
        }
        let name: Arc<str> = topic.into();
        self.names.insert(Arc::clone(&name));
        let queue = Arc::clone(&self.queue);
        self.topics.lock().entry(name).or_default().insert(self.connection.clone(), queue);
        Ok(true)
    }

    /// Unsubscribes, and returns whether the connection was subscribed.
    pub(super) fn remove(&mut self, topic: &str) -> bool {
        let was_there = self.names.remove(topic);
        if was_there {
            leave(&mut self.topics.lock(), &self.connection, topic);
        }
        was_there
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let mut topics = self.topics.lock();
        for topic in self.names.drain() {
            leave(&mut topics, &self.connection, &topic);
        }
    }
}

fn leave(topics: &mut HashMap<Arc<str>, Subscribers>, connection: &ConnectionId, topic: &str) {
    let Some(subscribers) = topics.get_mut(topic) else { return };
    subscribers.remove(connection);
    // A topic without subscribers takes no memory.
    if subscribers.is_empty() {
        topics.remove(topic);
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::{Dequeued, QueueBounds};
    use super::*;

    fn subscriber(topics: &Arc<Topics>, name: &str) -> (Arc<SendQueue>, Subscriptions) {
        let queue = Arc::new(SendQueue::new(QueueBounds { messages: 2, bytes: 100 }));
        let id = ConnectionId::from_name(name);
        (Arc::clone(&queue), Subscriptions::new(Arc::clone(topics), id, queue, 2))
    }

    #[test]
    fn each_subscriber_gets_a_message_once() {
        let topics = Arc::new(Topics::default());
        let ((a, mut of_a), (b, mut of_b)) = (subscriber(&topics, "a"), subscriber(&topics, "b"));
        assert_eq!((of_a.add("x"), of_a.add("x"), of_b.add("x")), (Ok(true), Ok(false), Ok(true)));
        let message = Bytes::from_static(b"hello");
        assert_eq!(topics.publish("x", &message, None), 2);
        assert_eq!(topics.publish("x", &message, Some(&ConnectionId::from_name("a"))), 1);
        assert_eq!(topics.publish("y", &message, None), 0);
        assert_eq!((a.pop(), a.pop()), (Dequeued::Message(message.clone()), Dequeued::Empty));
        assert_eq!(
            (b.pop(), b.pop(), b.pop()),
            (Dequeued::Message(message.clone()), Dequeued::Message(message), Dequeued::Empty)
        );
    }

    #[test]
    fn subscriber_that_does_not_read_is_disconnected_and_others_get_the_message() {
        let topics = Arc::new(Topics::default());
        let ((a, mut of_a), (b, mut of_b)) = (subscriber(&topics, "a"), subscriber(&topics, "b"));
        of_a.add("x").unwrap();
        of_b.add("x").unwrap();
        for number in 0..5 {
            b.pop();
            assert_eq!(topics.publish("x", &Bytes::from_static(b"."), None), if number < 2 { 2 } else { 1 });
        }
        assert_eq!(a.pop(), Dequeued::End);
    }

    #[test]
    fn dropped_subscriptions_leave_nothing_behind() {
        let topics = Arc::new(Topics::default());
        let (_, mut of_a) = subscriber(&topics, "a");
        of_a.add("x").unwrap();
        of_a.add("y").unwrap();
        assert_eq!(of_a.add(&"x".repeat(MAX_TOPIC_BYTES + 1)).unwrap_err().code(), ErrorCode::InvalidArgument);
        assert_eq!(of_a.add("z").unwrap_err().code(), ErrorCode::FailedPrecondition, "there is a bound");
        assert!(of_a.remove("x"));
        assert!(!of_a.remove("x"));
        assert_eq!(topics.lock().len(), 1);
        drop(of_a);
        assert!(topics.lock().is_empty());
    }
}
