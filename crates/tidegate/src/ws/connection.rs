//! A connection, as handlers see it.

use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Notify;

use super::lock::lock;
use super::queue::{Queue, Refused};
use super::topics::{Subscriptions, Topics};
use super::{Code, Error, Message, wire};
use crate::clock::Clock;
use crate::http::Client;
use crate::random;

/// What a connection is known by: no other, in any process, has the same.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(Arc<str>);

impl ConnectionId {
    pub(super) fn new() -> Self {
        let [first, second, ..] = random::secrets();
        ConnectionId(format!("{first:016x}{second:016x}").into())
    }

    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        ConnectionId(name.into())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A connection, to send to and to close. Clones are the same connection, and none of them keeps it open.
pub struct Connection<D> {
    inner: Arc<Inner<D>>,
}

struct Inner<D> {
    id: ConnectionId,
    client: Option<Client>,
    data: D,
    queue: Arc<Queue>,
    topics: Arc<Topics>,
    subscriptions: Mutex<Option<Subscriptions>>,
    clock: Arc<dyn Clock>,
    closing: Mutex<Option<(u16, String)>>,
    asked_to_close: Notify,
}

/// What a connection is made of.
pub(super) struct Parts {
    pub(super) client: Option<Client>,
    pub(super) queue: Queue,
    pub(super) topics: Arc<Topics>,
    pub(super) max_topics: usize,
    pub(super) clock: Arc<dyn Clock>,
}

impl<D> Connection<D> {
    pub(super) fn new(data: D, parts: Parts) -> Self {
        let Parts { client, queue, topics, max_topics, clock } = parts;
        let (id, queue) = (ConnectionId::new(), Arc::new(queue));
        let subscriptions = Subscriptions::new(Arc::clone(&topics), id.clone(), Arc::clone(&queue), max_topics);
        let inner = Inner {
            id,
            client,
            data,
            queue,
            topics,
            subscriptions: Mutex::new(Some(subscriptions)),
            clock,
            closing: Mutex::default(),
            asked_to_close: Notify::new(),
        };
        Connection { inner: Arc::new(inner) }
    }

    /// What it is known by.
    pub fn id(&self) -> &ConnectionId {
        &self.inner.id
    }

    /// The client, as far as its address can be known.
    pub fn client(&self) -> Option<&Client> {
        self.inner.client.as_ref()
    }

    /// What is known of it.
    pub fn data(&self) -> &D {
        &self.inner.data
    }

    /// Whether messages can still be sent to it.
    pub fn is_open(&self) -> bool {
        self.inner.queue.is_open()
    }

    /// Sends a message, in the order of the calls and without waiting. A client that does not read is disconnected when
    /// too much waits for it.
    pub fn send<M: Message + Serialize>(&self, message: &M) -> Result<(), Error> {
        self.push(self.write(M::TYPE, None, message)?)
    }

    /// Subscribes to a topic, of 256 bytes at most, and says whether that is new.
    pub fn subscribe(&self, topic: &str) -> Result<bool, Error> {
        match &mut *lock(&self.inner.subscriptions) {
            Some(subscriptions) => subscriptions.add(topic),
            None => Err(gone(Refused::Closed)),
        }
    }

    /// Unsubscribes from a topic, and says whether it was subscribed.
    pub fn unsubscribe(&self, topic: &str) -> bool {
        let mut subscriptions = lock(&self.inner.subscriptions);
        subscriptions.as_mut().is_some_and(|subscriptions| subscriptions.remove(topic))
    }

    /// Sends a message to all who are subscribed to a topic in this process but this connection, and says to how many.
    pub fn publish<M: Message + Serialize>(&self, topic: &str, message: &M) -> Result<usize, Error> {
        let message = self.write(M::TYPE, None, message)?;
        Ok(self.inner.topics.publish(topic, &message, Some(&self.inner.id)))
    }

    /// Closes the connection, after what waits to be sent. The first code counts; one that may not be sent is sent as 1011. A
    /// reason is cut to the 123 bytes that there is room for.
    pub fn close(&self, code: u16, reason: &str) {
        let mut closing = lock(&self.inner.closing);
        closing.get_or_insert_with(|| (code, reason.to_owned()));
        drop(closing);
        self.inner.asked_to_close.notify_one();
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.inner.queue
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    /// Ends when somebody wants it closed, with why.
    pub(super) async fn asked_to_close(&self) -> (u16, String) {
        loop {
            if let Some(closing) = lock(&self.inner.closing).take() {
                return closing;
            }
            self.inner.asked_to_close.notified().await;
        }
    }

    /// Gets nothing any more that is published.
    pub(super) fn leave_topics(&self) {
        drop(lock(&self.inner.subscriptions).take());
    }

    pub(super) fn write(
        &self,
        message_type: &str,
        correlation_id: Option<&str>,
        payload: &impl Serialize,
    ) -> Result<Bytes, Error> {
        Ok(wire::write(message_type, correlation_id, payload, self.inner.clock.now())?.into())
    }

    pub(super) fn push(&self, message: Bytes) -> Result<(), Error> {
        self.inner.queue.push(message).map_err(gone)
    }

    pub(super) fn write_error(&self, correlation_id: Option<&str>, error: &Error) -> Bytes {
        wire::write_error(correlation_id, error, self.inner.clock.now()).into()
    }

    pub(super) fn send_error(&self, correlation_id: Option<&str>, error: &Error) {
        // Nobody is left to be told that nobody is there.
        let _ = self.push(self.write_error(correlation_id, error));
    }
}

/// What a handler is told that sends to nobody.
pub(super) fn gone(refused: Refused) -> Error {
    Error::new(
        Code::Unavailable,
        match refused {
            Refused::Closed => "The connection is closed",
            Refused::Overflown => "The client does not read what it is sent",
        },
    )
}

impl<D> Clone for Connection<D> {
    fn clone(&self) -> Self {
        Connection { inner: Arc::clone(&self.inner) }
    }
}

impl<D: fmt::Debug> fmt::Debug for Connection<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { id, client, data, .. } = &*self.inner;
        f.debug_struct("Connection").field("id", id).field("client", client).field("data", data).finish_non_exhaustive()
    }
}
