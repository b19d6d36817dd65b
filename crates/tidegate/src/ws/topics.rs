//! Who gets what is published.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use super::lock::lock;
use super::queue::Queue;
use super::{Code, ConnectionId, Error};

/// The longest name of a topic. Names come from clients more often than not.
const LONGEST: usize = 256;

/// The queues of those who are subscribed to a topic.
type Subscribers = HashMap<ConnectionId, Arc<Queue>>;

/// The subscribers of all topics, in this process.
#[derive(Default)]
pub(super) struct Topics(Mutex<HashMap<Arc<str>, Subscribers>>);

impl Topics {
    /// Puts a message into the queue of each subscriber but one, and says into how many. One who does not read is
    /// disconnected for it, and holds up nobody.
    pub(super) fn publish(&self, topic: &str, message: &Bytes, except: Option<&ConnectionId>) -> usize {
        let topics = self.lock();
        let subscribers = topics.get(topic).into_iter().flatten().filter(|(id, _)| Some(*id) != except);
        let queues: Vec<_> = subscribers.map(|(_, queue)| Arc::clone(queue)).collect();
        // A large topic holds up nobody but its own.
        drop(topics);
        queues.iter().filter(|queue| queue.push(message.clone()).is_ok()).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Subscribers>> {
        lock(&self.0)
    }
}

/// The topics that one connection is subscribed to. Dropping it ends them.
pub(super) struct Subscriptions {
    topics: Arc<Topics>,
    connection: ConnectionId,
    queue: Arc<Queue>,
    most: usize,
    names: HashSet<Arc<str>>,
}

impl Subscriptions {
    pub(super) fn new(topics: Arc<Topics>, connection: ConnectionId, queue: Arc<Queue>, most: usize) -> Self {
        Subscriptions { topics, connection, queue, most, names: HashSet::new() }
    }

    /// Subscribes, and says whether that is new.
    pub(super) fn add(&mut self, topic: &str) -> Result<bool, Error> {
        if self.names.contains(topic) {
            return Ok(false);
        }
        if topic.len() > LONGEST {
            return Err(Error::invalid(format!("A topic has {LONGEST} bytes at most")));
        }
        if self.names.len() >= self.most {
            return Err(Error::new(Code::FailedPrecondition, "Too many topics").with_detail("limit", self.most));
        }
        let name: Arc<str> = topic.into();
        self.names.insert(Arc::clone(&name));
        let queue = Arc::clone(&self.queue);
        self.topics.lock().entry(name).or_default().insert(self.connection.clone(), queue);
        Ok(true)
    }

    /// Unsubscribes, and says whether it was subscribed.
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
    // A topic without anybody costs nothing.
    if subscribers.is_empty() {
        topics.remove(topic);
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::{Bounds, Next};
    use super::*;

    fn subscriber(topics: &Arc<Topics>, name: &str) -> (Arc<Queue>, Subscriptions) {
        let queue = Arc::new(Queue::new(Bounds { messages: 2, bytes: 100 }));
        let id = ConnectionId::named(name);
        (Arc::clone(&queue), Subscriptions::new(Arc::clone(topics), id, queue, 2))
    }

    #[test]
    fn all_who_are_subscribed_get_it_once() {
        let topics = Arc::new(Topics::default());
        let ((a, mut of_a), (b, mut of_b)) = (subscriber(&topics, "a"), subscriber(&topics, "b"));
        assert_eq!((of_a.add("x"), of_a.add("x"), of_b.add("x")), (Ok(true), Ok(false), Ok(true)));
        let message = Bytes::from_static(b"hello");
        assert_eq!(topics.publish("x", &message, None), 2);
        assert_eq!(topics.publish("x", &message, Some(&ConnectionId::named("a"))), 1);
        assert_eq!(topics.publish("y", &message, None), 0);
        assert_eq!((a.pop(), a.pop()), (Next::Message(message.clone()), Next::Empty));
        assert_eq!((b.pop(), b.pop(), b.pop()), (Next::Message(message.clone()), Next::Message(message), Next::Empty));
    }

    #[test]
    fn who_does_not_read_is_let_go_and_the_others_get_it() {
        let topics = Arc::new(Topics::default());
        let ((a, mut of_a), (b, mut of_b)) = (subscriber(&topics, "a"), subscriber(&topics, "b"));
        of_a.add("x").unwrap();
        of_b.add("x").unwrap();
        for number in 0..5 {
            b.pop();
            assert_eq!(topics.publish("x", &Bytes::from_static(b"."), None), if number < 2 { 2 } else { 1 });
        }
        assert_eq!(a.pop(), Next::End);
    }

    #[test]
    fn nothing_is_left_of_who_has_gone() {
        let topics = Arc::new(Topics::default());
        let (_, mut of_a) = subscriber(&topics, "a");
        of_a.add("x").unwrap();
        of_a.add("y").unwrap();
        assert_eq!(of_a.add(&"x".repeat(LONGEST + 1)).unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(of_a.add("z").unwrap_err().code(), Code::FailedPrecondition, "there is a bound");
        assert!(of_a.remove("x"));
        assert!(!of_a.remove("x"));
        assert_eq!(topics.lock().len(), 1);
        drop(of_a);
        assert!(topics.lock().is_empty());
    }
}
