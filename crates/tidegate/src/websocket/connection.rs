//! An open connection, and the contexts in which its handlers run.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde::Serialize;
use tidegate_core::Timestamp;
use tokio::sync::Notify;

use super::queue::{PushError, SendQueue};
use super::topics::{Subscriptions, Topics};
use super::{ErrorCode, HandlerResponse, Message, MessageError, lock, wire};
use crate::clock::Clock;
use crate::enforce::Outcome;
use crate::http::Client;
use crate::random;

/// The ID of a connection, unique across processes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(Arc<str>);

impl ConnectionId {
    pub(super) fn new() -> Self {
        let [first, second, ..] = random::draw_secrets();
        ConnectionId(format!("{first:016x}{second:016x}").into())
    }

    #[cfg(test)]
    pub(super) fn from_name(name: &str) -> Self {
        ConnectionId(name.into())
    }

    /// Returns the ID as text.
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

/// A connection, to send to and to close. Clones refer to the same connection; none of them keeps it open.
pub struct Connection<D> {
    inner: Arc<ConnectionState<D>>,
}

struct ConnectionState<D> {
    id: ConnectionId,
    client: Option<Client>,
    data: D,
    queue: Arc<SendQueue>,
    topics: Arc<Topics>,
    subscriptions: Mutex<Option<Subscriptions>>,
    clock: Arc<dyn Clock>,
    closing: Mutex<Option<(u16, String)>>,
    close_requested: Notify,
}

/// The parts that a connection is built from.
pub(super) struct ConnectionParts {
    pub(super) client: Option<Client>,
    pub(super) queue: SendQueue,
    pub(super) topics: Arc<Topics>,
    pub(super) max_topics: usize,
    pub(super) clock: Arc<dyn Clock>,
}

impl<D> Connection<D> {
    pub(super) fn new(data: D, parts: ConnectionParts) -> Self {
        let ConnectionParts { client, queue, topics, max_topics, clock } = parts;
        let (id, queue) = (ConnectionId::new(), Arc::new(queue));
        let subscriptions = Subscriptions::new(Arc::clone(&topics), id.clone(), Arc::clone(&queue), max_topics);
        let inner = ConnectionState {
            id,
            client,
            data,
            queue,
            topics,
            subscriptions: Mutex::new(Some(subscriptions)),
            clock,
            closing: Mutex::default(),
            close_requested: Notify::new(),
        };
        Connection { inner: Arc::new(inner) }
    }

    /// Returns the ID.
    pub fn id(&self) -> &ConnectionId {
        &self.inner.id
    }

    /// Returns the client, if its address is known.
    pub fn client(&self) -> Option<&Client> {
        self.inner.client.as_ref()
    }

    /// Returns the data from [`authenticate`](super::RouterBuilder::authenticate).
    pub fn data(&self) -> &D {
        &self.inner.data
    }

    /// Returns whether messages can still be sent.
    pub fn is_open(&self) -> bool {
        self.inner.queue.is_open()
    }

    /// Queues a message, in order and without waiting. A client whose queue overflows is disconnected.
    pub fn send<M: Message + Serialize>(&self, message: &M) -> Result<(), MessageError> {
        self.push(self.write(M::TYPE, None, message)?)
    }

    /// Subscribes to a topic of at most 256 bytes. Returns whether the subscription is new.
    pub fn subscribe(&self, topic: &str) -> Result<bool, MessageError> {
        match &mut *lock(&self.inner.subscriptions) {
            Some(subscriptions) => subscriptions.add(topic),
            None => Err(PushError::Closed.into()),
        }
    }

    /// Unsubscribes from a topic. Returns whether the connection was subscribed.
    pub fn unsubscribe(&self, topic: &str) -> bool {
        let mut subscriptions = lock(&self.inner.subscriptions);
        subscriptions.as_mut().is_some_and(|subscriptions| subscriptions.remove(topic))
    }

    /// Sends a message to all other connections of this process that are subscribed to a topic. Returns their number.
    pub fn publish<M: Message + Serialize>(&self, topic: &str, message: &M) -> Result<usize, MessageError> {
        let message = self.write(M::TYPE, None, message)?;
        Ok(self.inner.topics.publish(topic, &message, Some(&self.inner.id)))
    }

    /// Closes the connection after the queued messages. The first call wins. A code that may not be sent becomes 1011.
    /// The reason is cut to 123 bytes, the room in a close frame.
    pub fn close(&self, code: u16, reason: &str) {
        let mut closing = lock(&self.inner.closing);
        closing.get_or_insert_with(|| (code, reason.to_owned()));
        drop(closing);
        self.inner.close_requested.notify_one();
    }

    pub(super) fn queue(&self) -> &SendQueue {
        &self.inner.queue
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    /// Waits until [`close`](Self::close) is called, and returns its code and reason.
    pub(super) async fn close_requested(&self) -> (u16, String) {
        loop {
            if let Some(closing) = lock(&self.inner.closing).take() {
                return closing;
            }
            self.inner.close_requested.notified().await;
        }
    }

    /// Ends all subscriptions.
    pub(super) fn leave_topics(&self) {
        drop(lock(&self.inner.subscriptions).take());
    }

    pub(super) fn write(
        &self,
        message_type: &str,
        correlation_id: Option<&str>,
        payload: &impl Serialize,
    ) -> Result<Bytes, MessageError> {
        Ok(wire::write(message_type, correlation_id, payload, self.inner.clock.now())?.into())
    }

    pub(super) fn push(&self, message: Bytes) -> Result<(), MessageError> {
        self.inner.queue.push(message).map_err(MessageError::from)
    }

    pub(super) fn write_error(&self, correlation_id: Option<&str>, error: &MessageError) -> Bytes {
        wire::write_error(correlation_id, error, self.inner.clock.now()).into()
    }

    pub(super) fn send_error(&self, correlation_id: Option<&str>, error: &MessageError) {
        // A closed connection has no client to tell.
        let _ = self.push(self.write_error(correlation_id, error));
    }
}

impl From<PushError> for MessageError {
    fn from(error: PushError) -> Self {
        let message = match error {
            PushError::Closed => "The connection is closed",
            PushError::Overflowed => "The client does not read what it is sent",
        };
        MessageError::new(ErrorCode::Unavailable, message)
    }
}

impl<D> Clone for Connection<D> {
    fn clone(&self) -> Self {
        Connection { inner: Arc::clone(&self.inner) }
    }
}

impl<D: fmt::Debug> fmt::Debug for Connection<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConnectionState { id, client, data, .. } = &*self.inner;
        f.debug_struct("Connection").field("id", id).field("client", client).field("data", data).finish_non_exhaustive()
    }
}

/// The context in which a handler runs. Dereferences to the [`Connection`].
pub struct Context<D> {
    pub(super) connection: Connection<D>,
    pub(super) message_type: &'static str,
    pub(super) received: Timestamp,
    pub(super) outcome: Option<Arc<Outcome>>,
    pub(super) rpc: Option<Arc<RpcState>>,
}

impl<D> Context<D> {
    /// Returns the connection.
    pub fn connection(&self) -> &Connection<D> {
        &self.connection
    }

    /// Returns the type of the message.
    pub fn message_type(&self) -> &'static str {
        self.message_type
    }

    /// Returns when the message was received.
    pub fn received(&self) -> Timestamp {
        self.received
    }

    /// Builds a reply in place of the handler's, for middleware such as a cache. For an event it is empty.
    pub fn reply<M: Message + Serialize>(&self, reply: &M) -> Result<HandlerResponse, MessageError> {
        let Some(rpc) = &self.rpc else { return Ok(HandlerResponse::NONE) };
        Ok(HandlerResponse { reply: Some(self.connection.write(M::TYPE, Some(&rpc.correlation_id), reply)?) })
    }

    /// Returns the decision of the limits, such as the remaining quota. `None` without a rate limit.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_deref()
    }
}

/// The state of an RPC until its reply.
pub(super) struct RpcState {
    pub(super) correlation_id: Box<str>,
    /// Whether the reply is on its way. No progress may follow it.
    answered: Mutex<bool>,
}

impl RpcState {
    pub(super) fn new(correlation_id: &str) -> Self {
        RpcState { correlation_id: correlation_id.into(), answered: Mutex::new(false) }
    }

    /// Ends progress.
    pub(super) fn finish(&self) {
        *lock(&self.answered) = true;
    }
}

/// The context in which the handler of an RPC runs. Dereferences to the [`Context`].
///
/// The handler is dropped when the client aborts the RPC, when it times out and when the connection closes.
pub struct RpcContext<D> {
    context: Context<D>,
    rpc: Arc<RpcState>,
}

impl<D> RpcContext<D> {
    pub(super) fn new(context: Context<D>) -> Option<Self> {
        let rpc = context.rpc.clone()?;
        Some(RpcContext { context, rpc })
    }

    pub(super) fn correlation_id(&self) -> &str {
        &self.rpc.correlation_id
    }

    /// Sends progress before the reply. Returns false and drops the progress when the queue is half full or the RPC is
    /// done.
    pub fn progress(&self, progress: &impl Serialize) -> Result<bool, MessageError> {
        let message = self.connection.write(wire::PROGRESS, Some(self.correlation_id()), progress)?;
        let answered = lock(&self.rpc.answered);
        if *answered {
            Ok(false)
        } else {
            self.connection.queue().push_if_room(message, || ()).map_err(MessageError::from)
        }
    }
}

impl<D> Deref for Context<D> {
    type Target = Connection<D>;

    fn deref(&self) -> &Connection<D> {
        &self.connection
    }
}

impl<D> Deref for RpcContext<D> {
    type Target = Context<D>;

    fn deref(&self) -> &Context<D> {
        &self.context
    }
}

impl<D> Clone for RpcContext<D> {
    fn clone(&self) -> Self {
        RpcContext { context: self.context.clone(), rpc: Arc::clone(&self.rpc) }
    }
}

impl<D> Clone for Context<D> {
    fn clone(&self) -> Self {
        Context {
            connection: self.connection.clone(),
            message_type: self.message_type,
            received: self.received,
            outcome: self.outcome.clone(),
            rpc: self.rpc.clone(),
        }
    }
}

impl<D> fmt::Debug for Context<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context { message_type, received, outcome, .. } = self;
        let mut debug = f.debug_struct("Context");
        debug.field("connection", self.id()).field("message_type", message_type).field("received", received);
        debug.field("outcome", outcome).finish_non_exhaustive()
    }
}

impl<D> fmt::Debug for RpcContext<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RpcContext");
        debug.field("context", &self.context).field("correlation_id", &self.rpc.correlation_id).finish()
    }
}
