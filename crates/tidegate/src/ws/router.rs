//! The router: which handler gets which message, and what runs before.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use serde::Serialize;
use tidegate_core::BoxFuture;

use super::connection::Parts;
use super::handler::Handler;
use super::hooks::Hooks;
use super::lock::lock;
use super::queue::Queue;
use super::settings::Settings;
use super::topics::Topics;
use super::{Connection, ConnectionId, Data, Error, Handshake, Message, RateLimit, RouterBuilder, wire};
use crate::clock::Clock;
use crate::http::{Client, ClientAddress, ForwardingWarning};

pub(super) type Authenticate<D> = Arc<dyn Fn(Handshake) -> BoxFuture<'static, Result<D, Error>> + Send + Sync>;

/// A router of messages. Made by a [`builder`](Router::builder), cheap to clone, and shared by all connections.
pub struct Router<D> {
    inner: Arc<Inner<D>>,
}

pub(super) struct Inner<D> {
    pub(super) handlers: HashMap<&'static str, Handler<D>>,
    pub(super) rate_limit: Option<RateLimit<D>>,
    pub(super) authenticate: Authenticate<D>,
    pub(super) hooks: Hooks<D>,
    pub(super) settings: Settings,
    pub(super) client_address: ClientAddress,
    pub(super) warning: ForwardingWarning,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) topics: Arc<Topics>,
    pub(super) connections: Mutex<HashMap<ConnectionId, Connection<D>>>,
}

impl<D: Data> Router<D> {
    /// How a router is made. It begins without handlers, and ends with [`authenticate`](RouterBuilder::authenticate), or with
    /// [`build`](RouterBuilder::build) where everybody is let in.
    pub fn builder() -> RouterBuilder<D> {
        RouterBuilder::new()
    }

    /// Sends a message to all who are subscribed to a topic in this process, and says to how many.
    pub fn publish<M: Message + Serialize>(&self, topic: &str, message: &M) -> Result<usize, Error> {
        let message = wire::write(M::TYPE, None, message, self.inner.clock.now())?;
        Ok(self.inner.topics.publish(topic, &Bytes::from(message), None))
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.lock().len()
    }

    /// Closes all connections, such as with [`GOING_AWAY`](super::close::GOING_AWAY) when the program ends.
    pub fn close(&self, code: u16, reason: &str) {
        self.lock().values().for_each(|connection| connection.close(code, reason));
    }

    /// A connection, known to the router until it is dropped.
    pub(super) fn enter(&self, data: D, client: Option<Client>) -> Entered<D> {
        let Inner { settings, topics, clock, .. } = &*self.inner;
        let parts = Parts {
            client,
            queue: Queue::new(settings.outgoing),
            topics: Arc::clone(topics),
            max_topics: settings.max_topics,
            clock: Arc::clone(clock),
        };
        let connection = Connection::new(data, parts);
        self.lock().insert(connection.id().clone(), connection.clone());
        Entered { router: self.clone(), connection }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionId, Connection<D>>> {
        lock(&self.inner.connections)
    }
}

impl<D> Router<D> {
    pub(super) fn new(inner: Inner<D>) -> Self {
        Router { inner: Arc::new(inner) }
    }

    pub(super) fn inner(&self) -> &Inner<D> {
        &self.inner
    }
}

/// A connection that the router knows of. Dropping it ends that, and its subscriptions.
pub(super) struct Entered<D: Data> {
    router: Router<D>,
    pub(super) connection: Connection<D>,
}

impl<D: Data> Drop for Entered<D> {
    fn drop(&mut self) {
        self.connection.leave_topics();
        self.connection.queue().abandon();
        self.router.lock().remove(self.connection.id());
    }
}

impl<D> Clone for Router<D> {
    fn clone(&self) -> Self {
        Router { inner: Arc::clone(&self.inner) }
    }
}

impl<D> fmt::Debug for Router<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { handlers, rate_limit, settings, .. } = &*self.inner;
        let mut types: Vec<_> = handlers.keys().collect();
        types.sort();
        let mut debug = f.debug_struct("Router");
        debug.field("types", &types).field("rate_limit", rate_limit).field("settings", settings).finish_non_exhaustive()
    }
}
