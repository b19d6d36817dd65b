//! The builder of a router: handlers, limits, hooks, bounds and timeouts.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::message::{Handler, IntoResult, Middleware};
use super::queue::QueueBounds;
use super::router::{Authenticate, Hooks, RouterState};
use super::{
    CloseEvent, Connection, ConnectionData, Context, HandlerResponse, Handshake, LimitExceeded, Message, MessageError,
    MessageRateLimit, Next, OnExceeded, Router, Rpc, RpcContext, close_code, wire,
};
use crate::clock::{Clock, SystemClock};
use crate::http::{ClientAddress, ForwardingWarning};

/// A builder of a [`Router`].
pub struct RouterBuilder<D> {
    handlers: HashMap<&'static str, Handler<D>>,
    middleware: Vec<Middleware<D>>,
    rate_limit: Option<MessageRateLimit<D>>,
    hooks: Hooks<D>,
    settings: Settings,
    client_address: ClientAddress,
    clock: Arc<dyn Clock>,
    error: Option<RouterBuildError>,
}

/// The error of a router that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouterBuildError {
    /// The protocol uses this message type itself.
    #[error(
        "the message type {0:?} is reserved: expected one that is not empty, ERROR or RPC_ERROR, and does not begin with $ws:"
    )]
    ReservedType(&'static str),
    /// A message type has two handlers.
    #[error("the message type {0:?} has two handlers: expected one")]
    DuplicateHandler(&'static str),
}

impl<D: ConnectionData> RouterBuilder<D> {
    pub(super) fn new() -> Self {
        RouterBuilder {
            handlers: HashMap::new(),
            middleware: Vec::new(),
            rate_limit: None,
            hooks: Hooks::default(),
            settings: Settings::default(),
            client_address: ClientAddress::new(),
            clock: Arc::new(SystemClock),
            error: None,
        }
    }

    /// Handles events of one message type. Events of one connection run one after the other, in order of arrival. An
    /// error goes to the client.
    ///
    /// A type that is reserved or that has a handler already is an error of [`build`](Self::build).
    #[must_use]
    pub fn on<M, F, Fut>(self, handler: F) -> Self
    where
        M: Message + DeserializeOwned + Send + 'static,
        F: Fn(Context<D>, M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoResult> + Send + 'static,
    {
        self.handle(Handler::event(handler))
    }

    /// Handles RPCs of one message type; each gets one reply. RPCs run concurrently, also those of one connection.
    ///
    /// A type that is reserved or that has a handler already is an error of [`build`](Self::build).
    #[must_use]
    pub fn rpc<M, F, Fut>(self, handler: F) -> Self
    where
        M: Rpc + DeserializeOwned + Send + 'static,
        F: Fn(RpcContext<D>, M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Reply, MessageError>> + Send + 'static,
    {
        self.handle(Handler::rpc(handler))
    }

    fn handle(mut self, handler: Handler<D>) -> Self {
        let name = handler.message_type;
        let is_reserved =
            name.is_empty() || name.starts_with(wire::RESERVED) || [wire::ERROR, wire::RPC_ERROR].contains(&name);
        if is_reserved {
            self.error.get_or_insert(RouterBuildError::ReservedType(name));
        } else if self.handlers.insert(name, handler).is_some() {
            self.error.get_or_insert(RouterBuildError::DuplicateHandler(name));
        }
        self
    }

    /// Adds middleware around the handlers of all types. It runs after the limits and after the payload is parsed. The
    /// first middleware is outermost.
    #[must_use]
    pub fn wrap<F, Fut>(mut self, middleware: F) -> Self
    where
        F: Fn(Context<D>, Next<D>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HandlerResponse, MessageError>> + Send + 'static,
    {
        self.middleware.push(Middleware::new(None, middleware));
        self
    }

    /// Adds middleware around the handler of one type.
    #[must_use]
    pub fn wrap_type<M, F, Fut>(mut self, middleware: F) -> Self
    where
        M: Message,
        F: Fn(Context<D>, Next<D>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HandlerResponse, MessageError>> + Send + 'static,
    {
        self.middleware.push(Middleware::new(Some(M::TYPE), middleware));
        self
    }

    /// Limits messages.
    #[must_use]
    pub fn rate_limit(mut self, rate_limit: impl Into<MessageRateLimit<D>>) -> Self {
        self.rate_limit = Some(rate_limit.into());
        self
    }

    /// Sets the action when a rate limit denies a message. Defaults to [`OnExceeded::Send`].
    #[must_use]
    pub fn on_rate_exceeded(mut self, on_exceeded: OnExceeded) -> Self {
        self.settings.on_rate = on_exceeded;
        self
    }

    /// Sets the maximum size of a message, in bytes. Defaults to 64 KiB.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_message_bytes = bytes;
        self
    }

    /// Sets the action when a message is too large. Defaults to closing the connection with 1009.
    ///
    /// With a closing action, the message is rejected by its header, before memory is allocated for it. With the other
    /// actions the message must be read and discarded, up to sixteen times the maximum size. A larger message closes
    /// the connection.
    #[must_use]
    pub fn on_payload_exceeded(mut self, on_exceeded: OnExceeded) -> Self {
        self.settings.on_payload = on_exceeded;
        self
    }

    /// Sets the maximum number of concurrent RPCs of one connection, at least 1. Defaults to 64.
    #[must_use]
    pub fn max_concurrent_rpcs(mut self, calls: u32) -> Self {
        self.settings.max_concurrent_rpcs = calls;
        self
    }

    /// Sets the maximum number of messages a connection may send in its life. One more closes it with 1013. Defaults to
    /// no maximum.
    #[must_use]
    pub fn max_messages(mut self, messages: u64) -> Self {
        self.settings.max_messages = Some(messages);
        self
    }

    /// Sets the maximum number of topics a connection may be subscribed to. Defaults to 128.
    #[must_use]
    pub fn max_topics(mut self, topics: usize) -> Self {
        self.settings.max_topics = topics;
        self
    }

    /// Sets the maximum number of messages and bytes queued for a client. Defaults to 256 messages and 1 MiB.
    ///
    /// A client whose queue overflows is disconnected. While the queue is more than half full, nothing is read from the
    /// client, no event starts and progress is dropped. The other half is for published messages and for messages that
    /// handlers send.
    #[must_use]
    pub fn send_queue(mut self, messages: usize, bytes: usize) -> Self {
        self.settings.send_queue = QueueBounds { messages: messages.max(1), bytes };
        self
    }

    /// Sets the interval of pings and the timeout of their pongs. Defaults to 30 and 10 seconds.
    #[must_use]
    pub fn heartbeat(mut self, interval: Duration, timeout: Duration) -> Self {
        self.settings.heartbeat = Some(HeartbeatSettings { interval, timeout });
        self
    }

    /// Sends no pings, for deployments where a proxy notices dead peers.
    #[must_use]
    pub fn no_heartbeat(mut self) -> Self {
        self.settings.heartbeat = None;
        self
    }

    /// Sets the timeout of an RPC. Defaults to 30 seconds. A client may set a shorter one with `timeoutMs` beside the
    /// correlation id.
    #[must_use]
    pub fn rpc_timeout(mut self, timeout: Duration) -> Self {
        self.settings.rpc_timeout = timeout;
        self
    }

    /// Sets the timeout of sending one message; a client that exceeds it is disconnected. Defaults to 10 seconds.
    #[must_use]
    pub fn send_timeout(mut self, timeout: Duration) -> Self {
        self.settings.send_timeout = timeout;
        self
    }

    /// Sets the timeout of the handshake, and of authentication. Defaults to 10 seconds each.
    #[must_use]
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.settings.handshake_timeout = timeout;
        self
    }

    /// Sets the timeout of each of the three steps of closing: running events, queued messages and the peer's close
    /// frame. Defaults to 2 seconds.
    ///
    /// Events continue after it, but cannot send any more.
    #[must_use]
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.settings.close_timeout = timeout;
        self
    }

    /// Sets how the client address is found. Defaults to the address of the peer.
    #[must_use]
    pub fn client_address(mut self, client_address: ClientAddress) -> Self {
        self.client_address = client_address;
        self
    }

    /// Sets the clock that timestamps messages.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Runs a hook when a connection has opened, before its first message is read. An error goes to the client and
    /// closes the connection with 1008.
    #[must_use]
    pub fn on_open<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Connection<D>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoResult> + Send + 'static,
    {
        self.hooks.on_open = Some(Arc::new(move |connection| {
            let opened = hook(connection);
            Box::pin(async { opened.await.into_result() })
        }));
        self
    }

    /// Runs a hook when a connection has ended, for whatever reason. It does not run if the future that serves the
    /// connection is dropped, as at the end of a runtime.
    #[must_use]
    pub fn on_close<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Connection<D>, CloseEvent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.hooks.on_close = Some(Arc::new(move |connection, closed| Box::pin(hook(connection, closed))));
        self
    }

    /// Runs a hook for every error that a handler returns. Panics, and limits that fail because of a programming error
    /// such as a missing key, are reported as INTERNAL. A panic in the hook is caught.
    #[must_use]
    pub fn on_error(mut self, hook: impl Fn(&Connection<D>, &MessageError) + Send + Sync + 'static) -> Self {
        self.hooks.on_error = Some(Arc::new(hook));
        self
    }

    /// Runs a hook once for each message that exceeds a bound, before the client is told. The hook runs inline, so
    /// spawn a task for slow work. A panic in the hook is caught.
    #[must_use]
    pub fn on_limit_exceeded(mut self, hook: impl Fn(&LimitExceeded) + Send + Sync + 'static) -> Self {
        self.hooks.on_limit_exceeded = Some(Arc::new(hook));
        self
    }

    /// Builds the router. `authenticate` identifies the client from its handshake before any message is read; an error
    /// rejects the client.
    ///
    /// Returns an error for a message type that is reserved or has two handlers.
    pub fn authenticate<F, Fut>(self, authenticate: F) -> Result<Router<D>, RouterBuildError>
    where
        F: Fn(Handshake) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<D, MessageError>> + Send + 'static,
    {
        self.finish(Arc::new(move |handshake| Box::pin(authenticate(handshake))))
    }

    fn finish(mut self, authenticate: Authenticate<D>) -> Result<Router<D>, RouterBuildError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.handlers.values_mut().for_each(|handler| handler.wrap(&self.middleware));
        Ok(Router::new(RouterState {
            handlers: self.handlers,
            rate_limit: self.rate_limit,
            authenticate,
            hooks: self.hooks,
            settings: self.settings,
            client_address: self.client_address,
            forwarding_warning: ForwardingWarning::new(),
            clock: self.clock,
            topics: Arc::default(),
            connections: Mutex::default(),
        }))
    }
}

impl<D: ConnectionData + Default> RouterBuilder<D> {
    /// Builds a router that admits every client, with default [`ConnectionData`].
    ///
    /// Returns an error for a message type that is reserved or has two handlers.
    pub fn build(self) -> Result<Router<D>, RouterBuildError> {
        self.finish(Arc::new(|_| Box::pin(async { Ok(D::default()) })))
    }
}

impl<D> fmt::Debug for RouterBuilder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterBuilder").field("types", &self.handlers.keys()).finish_non_exhaustive()
    }
}

/// Bounds and timeouts of a router's connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) max_message_bytes: usize,
    pub(super) on_payload: OnExceeded,
    pub(super) on_rate: OnExceeded,
    pub(super) max_concurrent_rpcs: u32,
    /// The maximum over the life of one connection.
    pub(super) max_messages: Option<u64>,
    pub(super) max_topics: usize,
    pub(super) send_queue: QueueBounds,
    pub(super) heartbeat: Option<HeartbeatSettings>,
    pub(super) rpc_timeout: Duration,
    /// The timeout of one message.
    pub(super) send_timeout: Duration,
    /// The timeout of the handshake, and again of authentication.
    pub(super) handshake_timeout: Duration,
    /// The timeout of each of running events, queued messages and the peer's close frame.
    pub(super) close_timeout: Duration,
}

/// The times of pings and their pongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeartbeatSettings {
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_message_bytes: 64 * 1024,
            on_payload: OnExceeded::Close(close_code::TOO_BIG),
            on_rate: OnExceeded::Send,
            max_concurrent_rpcs: 64,
            max_messages: None,
            max_topics: 128,
            send_queue: QueueBounds { messages: 256, bytes: 1024 * 1024 },
            heartbeat: Some(HeartbeatSettings { interval: Duration::from_secs(30), timeout: Duration::from_secs(10) }),
            rpc_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(2),
        }
    }
}

impl Settings {
    /// Returns the maximum message size of the socket itself. With a closing action the socket rejects a large message
    /// by its header, before memory is allocated. Otherwise the message must be read and discarded, up to this size.
    pub(super) fn socket_limit(&self) -> usize {
        match self.on_payload {
            OnExceeded::Close(_) => self.max_message_bytes,
            OnExceeded::Send | OnExceeded::Custom => self.max_message_bytes.saturating_mul(16),
        }
    }
}
