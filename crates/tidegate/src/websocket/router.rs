//! The router: its handlers, its open connections, and the handshake that admits them.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, Request, Uri};
use serde::Serialize;
use tidegate_core::BoxFuture;

use super::builder::Settings;
use super::connection::ConnectionParts;
use super::message::Handler;
use super::queue::SendQueue;
use super::topics::Topics;
use super::{
    Connection, ConnectionData, ConnectionId, ErrorCode, LimitExceeded, Message, MessageError, MessageRateLimit,
    RouterBuilder, lock, wire,
};
use crate::clock::{Clock, complete_before};
use crate::http::{Client, ClientAddress, ForwardingWarning};

pub(super) type Authenticate<D> = Arc<dyn Fn(Handshake) -> BoxFuture<'static, Result<D, MessageError>> + Send + Sync>;

/// A router of WebSocket messages, shared by all connections. Cheap to clone. Made by [`Router::builder`].
pub struct Router<D> {
    inner: Arc<RouterState<D>>,
}

pub(super) struct RouterState<D> {
    pub(super) handlers: HashMap<&'static str, Handler<D>>,
    pub(super) rate_limit: Option<MessageRateLimit<D>>,
    pub(super) authenticate: Authenticate<D>,
    pub(super) hooks: Hooks<D>,
    pub(super) settings: Settings,
    pub(super) client_address: ClientAddress,
    pub(super) forwarding_warning: ForwardingWarning,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) topics: Arc<Topics>,
    pub(super) connections: Mutex<HashMap<ConnectionId, Connection<D>>>,
}

impl<D: ConnectionData> Router<D> {
    /// Returns a builder. It ends with [`authenticate`](RouterBuilder::authenticate), or with
    /// [`build`](RouterBuilder::build) to admit every client.
    pub fn builder() -> RouterBuilder<D> {
        RouterBuilder::new()
    }

    /// Sends a message to all connections of this process that are subscribed to a topic. Returns their number.
    pub fn publish<M: Message + Serialize>(&self, topic: &str, message: &M) -> Result<usize, MessageError> {
        let message = wire::write(M::TYPE, None, message, self.inner.clock.now())?;
        Ok(self.inner.topics.publish(topic, &Bytes::from(message), None))
    }

    /// Returns the number of open connections.
    pub fn connection_count(&self) -> usize {
        self.lock().len()
    }

    /// Closes all connections, such as with [`GOING_AWAY`](super::close_code::GOING_AWAY) at shutdown.
    pub fn close_all(&self, code: u16, reason: &str) {
        self.lock().values().for_each(|connection| connection.close(code, reason));
    }

    /// Registers a connection until the result is dropped.
    pub(super) fn register(&self, data: D, client: Option<Client>) -> RegisteredConnection<D> {
        let RouterState { settings, topics, clock, .. } = &*self.inner;
        let parts = ConnectionParts {
            client,
            queue: SendQueue::new(settings.send_queue),
            topics: Arc::clone(topics),
            max_topics: settings.max_topics,
            clock: Arc::clone(clock),
        };
        let connection = Connection::new(data, parts);
        self.lock().insert(connection.id().clone(), connection.clone());
        RegisteredConnection { router: self.clone(), connection }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionId, Connection<D>>> {
        lock(&self.inner.connections)
    }
}

impl<D> Router<D> {
    pub(super) fn new(inner: RouterState<D>) -> Self {
        Router { inner: Arc::new(inner) }
    }

    pub(super) fn inner(&self) -> &RouterState<D> {
        &self.inner
    }
}

/// An open connection in the router. Dropping it removes the connection and its subscriptions.
pub(super) struct RegisteredConnection<D: ConnectionData> {
    router: Router<D>,
    pub(super) connection: Connection<D>,
}

impl<D: ConnectionData> Drop for RegisteredConnection<D> {
    fn drop(&mut self) {
        self.connection.leave_topics();
        self.connection.queue().discard();
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
        let RouterState { handlers, rate_limit, settings, .. } = &*self.inner;
        let mut types: Vec<_> = handlers.keys().collect();
        types.sort();
        let mut debug = f.debug_struct("Router");
        debug.field("types", &types).field("rate_limit", rate_limit).field("settings", settings).finish_non_exhaustive()
    }
}

/// The HTTP request that opens a connection, for [`authenticate`](super::RouterBuilder::authenticate).
///
/// A browser sends a site's cookies with a WebSocket that any other site opens. A program that authenticates by cookies
/// must compare the `origin` header with its own.
#[derive(Debug)]
pub struct Handshake {
    request: Request<()>,
    client: Option<Client>,
}

impl Handshake {
    /// Returns the requested URI.
    pub fn uri(&self) -> &Uri {
        self.request.uri()
    }

    /// Returns the headers. A client can write anything into them.
    pub fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    /// Returns the client, if its address is known.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// Returns the request, with its extensions.
    pub fn request(&self) -> &Request<()> {
        &self.request
    }
}

impl<D: ConnectionData> Router<D> {
    /// Authenticates a handshake within the timeout.
    pub(super) async fn authenticate(
        &self,
        request: Request<()>,
        peer: Option<IpAddr>,
    ) -> Result<(D, Option<Client>), MessageError> {
        let inner = self.inner();
        let find = |peer| inner.client_address.find_and_warn(&inner.forwarding_warning, peer, request.headers());
        let client = peer.map(find);
        let authenticated = async { (inner.authenticate)(Handshake { request, client }).await };
        let authenticated = AssertUnwindSafe(authenticated).catch_unwind();
        let late = tokio::time::sleep(inner.settings.handshake_timeout);
        let too_late = || Err(MessageError::new(ErrorCode::DeadlineExceeded, "Authentication took too long"));
        let panicked = |_| Err(MessageError::internal());
        let data =
            complete_before(late, authenticated).await.map_or_else(too_late, |known| known.unwrap_or_else(panicked))?;
        Ok((data, client))
    }
}

pub(super) type OnOpen<D> = Arc<dyn Fn(Connection<D>) -> BoxFuture<'static, Result<(), MessageError>> + Send + Sync>;
pub(super) type OnClose<D> = Arc<dyn Fn(Connection<D>, CloseEvent) -> BoxFuture<'static, ()> + Send + Sync>;
pub(super) type OnError<D> = Arc<dyn Fn(&Connection<D>, &MessageError) + Send + Sync>;
pub(super) type OnLimitExceeded = Arc<dyn Fn(&LimitExceeded) + Send + Sync>;

/// The end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseEvent {
    /// The close code of the peer or of this side. 1005 is a close frame without a code, 1006 a connection without a
    /// close frame.
    pub code: u16,
    /// The reason, or an empty text.
    pub reason: String,
}

/// The hooks of a router.
pub(super) struct Hooks<D> {
    pub(super) on_open: Option<OnOpen<D>>,
    pub(super) on_close: Option<OnClose<D>>,
    pub(super) on_error: Option<OnError<D>>,
    pub(super) on_limit_exceeded: Option<OnLimitExceeded>,
}

impl<D> Default for Hooks<D> {
    fn default() -> Self {
        Hooks { on_open: None, on_close: None, on_error: None, on_limit_exceeded: None }
    }
}

impl<D> Hooks<D> {
    pub(super) fn limit_exceeded(&self, exceeded: &LimitExceeded) {
        catch_hook_panic(self.on_limit_exceeded.as_deref(), |hook| hook(exceeded));
    }

    pub(super) fn handler_failed(&self, connection: &Connection<D>, error: &MessageError) {
        catch_hook_panic(self.on_error.as_deref(), |hook| hook(connection, error));
    }
}

/// Runs a hook, and catches a panic, which the panic hook has printed by then.
fn catch_hook_panic<H: ?Sized>(hook: Option<&H>, call: impl FnOnce(&H)) {
    if let Some(hook) = hook {
        let _ = catch_unwind(AssertUnwindSafe(|| call(hook)));
    }
}
