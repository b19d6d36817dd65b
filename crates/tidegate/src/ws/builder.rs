//! How a router is made.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::handler::{Handler, IntoResult, Wrap};
use super::hooks::Hooks;
use super::queue::Bounds;
use super::router::{Authenticate, Inner};
use super::settings::{Heartbeat, Settings};
use super::{
    Answer, Call, CallContext, Closed, Connection, Context, Data, Error, Exceeded, Handshake, Message, Next,
    OnExceeded, RateLimit, Router, wire,
};
use crate::clock::{Clock, SystemClock};
use crate::http::{ClientAddress, ForwardingWarning};

/// Makes a [`Router`].
pub struct RouterBuilder<D> {
    handlers: HashMap<&'static str, Handler<D>>,
    wraps: Vec<Wrap<D>>,
    rate_limit: Option<RateLimit<D>>,
    hooks: Hooks<D>,
    settings: Settings,
    client_address: ClientAddress,
    clock: Arc<dyn Clock>,
}

impl<D: Data> RouterBuilder<D> {
    pub(super) fn new() -> Self {
        RouterBuilder {
            handlers: HashMap::new(),
            wraps: Vec::new(),
            rate_limit: None,
            hooks: Hooks::default(),
            settings: Settings::default(),
            client_address: ClientAddress::new(),
            clock: Arc::new(SystemClock),
        }
    }

    /// Handles a type of events. Those of one connection are handled one after the other, in the order in which they came.
    /// An error goes to the client.
    ///
    /// # Panics
    ///
    /// When the type is one of the protocol's own, or has a handler.
    #[must_use]
    pub fn on<M, F, Fut>(self, handler: F) -> Self
    where
        M: Message + DeserializeOwned + Send + 'static,
        F: Fn(Context<D>, M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoResult> + Send + 'static,
    {
        self.handle(Handler::event(handler))
    }

    /// Handles a type of calls, which get one answer each. Calls are worked on at the same time, also those of one
    /// connection.
    ///
    /// # Panics
    ///
    /// When the type is one of the protocol's own, or has a handler.
    #[must_use]
    pub fn rpc<M, F, Fut>(self, handler: F) -> Self
    where
        M: Call + DeserializeOwned + Send + 'static,
        F: Fn(CallContext<D>, M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Reply, Error>> + Send + 'static,
    {
        self.handle(Handler::call(handler))
    }

    fn handle(mut self, handler: Handler<D>) -> Self {
        let name = handler.message_type;
        let is_reserved =
            name.is_empty() || name.starts_with(wire::RESERVED) || [wire::ERROR, wire::RPC_ERROR].contains(&name);
        assert!(!is_reserved, "{name:?} is a type of the protocol's own");
        assert!(self.handlers.insert(name, handler).is_none(), "{name:?} has a handler already");
        self
    }

    /// Runs around the handlers of all types, after the limits and after the payload was read. What is given first is
    /// outermost.
    #[must_use]
    pub fn wrap<F, Fut>(mut self, middleware: F) -> Self
    where
        F: Fn(Context<D>, Next<D>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Answer, Error>> + Send + 'static,
    {
        self.wraps.push(Wrap::new(None, middleware));
        self
    }

    /// Runs around the handler of one type.
    #[must_use]
    pub fn wrap_type<M, F, Fut>(mut self, middleware: F) -> Self
    where
        M: Message,
        F: Fn(Context<D>, Next<D>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Answer, Error>> + Send + 'static,
    {
        self.wraps.push(Wrap::new(Some(M::TYPE), middleware));
        self
    }

    /// What messages are limited by.
    #[must_use]
    pub fn rate_limit(mut self, rate_limit: impl Into<RateLimit<D>>) -> Self {
        self.rate_limit = Some(rate_limit.into());
        self
    }

    /// What happens to a message that a limit does not admit. The client is told unless said otherwise.
    #[must_use]
    pub fn on_rate_exceeded(mut self, on_exceeded: OnExceeded) -> Self {
        self.settings.on_rate = on_exceeded;
        self
    }

    /// The longest message, in bytes: 64 KiB unless said otherwise.
    #[must_use]
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.settings.max_message = bytes;
        self
    }

    /// What happens to a message that is too long. The connection is closed with 1009 unless said otherwise: then the
    /// message is refused by its header, before there is memory for it. With the others it has to be read past, up to
    /// sixteen times the longest, beyond which the connection is closed all the same.
    #[must_use]
    pub fn on_payload_exceeded(mut self, on_exceeded: OnExceeded) -> Self {
        self.settings.on_payload = on_exceeded;
        self
    }

    /// How many calls of one connection are worked on at once, at least 1: 64 unless said otherwise.
    #[must_use]
    pub fn max_calls(mut self, calls: u32) -> Self {
        self.settings.max_calls = calls;
        self
    }

    /// How many messages a connection may send in its life, after which it is closed with 1013. No bound unless said
    /// otherwise.
    #[must_use]
    pub fn max_messages(mut self, messages: u64) -> Self {
        self.settings.max_messages = Some(messages);
        self
    }

    /// How many topics a connection may be subscribed to: 128 unless said otherwise.
    #[must_use]
    pub fn max_topics(mut self, topics: usize) -> Self {
        self.settings.max_topics = topics;
        self
    }

    /// How many messages and bytes may wait to be sent to a client: 256 and 1 MiB unless said otherwise. A client for
    /// which more would wait is disconnected. When half of it is full, nothing is read from the client, no event is begun
    /// with, and no progress is sent; the other half is for what is published and for what handlers send.
    #[must_use]
    pub fn outgoing(mut self, messages: usize, bytes: usize) -> Self {
        self.settings.outgoing = Bounds { messages: messages.max(1), bytes };
        self
    }

    /// How often a peer is pinged, and how long it has to answer before it is taken for dead: 30 and 10 seconds unless said
    /// otherwise.
    #[must_use]
    pub fn heartbeat(mut self, interval: Duration, timeout: Duration) -> Self {
        self.settings.heartbeat = Some(Heartbeat { interval, timeout });
        self
    }

    /// No pings: something in front of this program notices dead peers.
    #[must_use]
    pub fn no_heartbeat(mut self) -> Self {
        self.settings.heartbeat = None;
        self
    }

    /// How long a call may take: 30 seconds unless said otherwise. A client may give its calls less, with `timeoutMs` beside
    /// the correlation id.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.settings.call_timeout = timeout;
        self
    }

    /// How long one message may take to be sent before the client is taken for one that does not read: 10 seconds unless
    /// said otherwise.
    #[must_use]
    pub fn send_timeout(mut self, timeout: Duration) -> Self {
        self.settings.send_timeout = timeout;
        self
    }

    /// How long a connection may take to be opened, and who it is to be found out: 10 seconds unless said otherwise.
    #[must_use]
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.settings.handshake_timeout = timeout;
        self
    }

    /// How long a connection may take to end, in each of three steps: events that are worked on, what waits to be sent, and
    /// the peer's goodbye. 2 seconds unless said otherwise. Events go on after that, and cannot send any more.
    #[must_use]
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.settings.close_timeout = timeout;
        self
    }

    /// How the address of a client is found: the connection's peer unless said otherwise.
    #[must_use]
    pub fn client_address(mut self, client_address: ClientAddress) -> Self {
        self.client_address = client_address;
        self
    }

    /// The clock that messages get their times from.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Runs when a connection has opened, before its first message is read. An error goes to the client, and the connection
    /// is closed with 1008.
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

    /// Runs when a connection has ended, however it did. Not when the future that serves it is dropped, as at the end of a
    /// runtime.
    #[must_use]
    pub fn on_close<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Connection<D>, Closed) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.hooks.on_close = Some(Arc::new(move |connection, closed| Box::pin(hook(connection, closed))));
        self
    }

    /// Is told of every error that a handler ends with, and, as INTERNAL, of functions that panic and of limits that cannot be
    /// asked because of a mistake in the program: a key that is missing, a name that is not there. A panic in it is contained.
    #[must_use]
    pub fn on_error(mut self, hook: impl Fn(&Connection<D>, &Error) + Send + Sync + 'static) -> Self {
        self.hooks.on_error = Some(Arc::new(hook));
        self
    }

    /// Is told once of each message of which there was too much, before anything is sent about it. It is called in passing: what
    /// takes time belongs into a task of its own. A panic in it is contained.
    #[must_use]
    pub fn on_limit_exceeded(mut self, hook: impl Fn(&Exceeded) + Send + Sync + 'static) -> Self {
        self.hooks.on_limit_exceeded = Some(Arc::new(hook));
        self
    }

    /// The router. Who opens a connection is found out by `authenticate`, from the handshake and before anything is read; an
    /// error turns it away.
    pub fn authenticate<F, Fut>(self, authenticate: F) -> Router<D>
    where
        F: Fn(Handshake) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<D, Error>> + Send + 'static,
    {
        self.finish(Arc::new(move |handshake| Box::pin(authenticate(handshake))))
    }

    fn finish(mut self, authenticate: Authenticate<D>) -> Router<D> {
        self.handlers.values_mut().for_each(|handler| handler.wrap(&self.wraps));
        Router::new(Inner {
            handlers: self.handlers,
            rate_limit: self.rate_limit,
            authenticate,
            hooks: self.hooks,
            settings: self.settings,
            client_address: self.client_address,
            warning: ForwardingWarning::new(),
            clock: self.clock,
            topics: Arc::default(),
            connections: Mutex::default(),
        })
    }
}

impl<D: Data + Default> RouterBuilder<D> {
    /// The router, for everybody.
    pub fn build(self) -> Router<D> {
        self.finish(Arc::new(|_| Box::pin(async { Ok(D::default()) })))
    }
}

impl<D> fmt::Debug for RouterBuilder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterBuilder").field("types", &self.handlers.keys()).finish_non_exhaustive()
    }
}
