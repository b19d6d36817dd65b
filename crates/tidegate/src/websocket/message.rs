//! Message types, their handlers and the middleware around them.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_core::{BoxFuture, Key};

use super::{Context, MessageError, RpcContext};

/// A message type: a Rust type that serde reads or writes as the payload.
///
/// ```
/// use serde::Deserialize;
/// use tidegate::websocket::Message;
///
/// #[derive(Deserialize)]
/// struct Say {
///     text: String,
/// }
///
/// impl Message for Say {
///     const TYPE: &'static str = "SAY"; // {"type":"SAY","payload":{"text":"hello"}}
///
///     fn validate(&self) -> Result<(), String> {
///         if self.text.is_empty() { Err("there is no text".to_owned()) } else { Ok(()) }
///     }
/// }
/// ```
///
/// A message without a payload is a unit struct.
pub trait Message {
    /// The `type` of the message. Types that begin with `$ws:`, `ERROR` and `RPC_ERROR` are reserved.
    const TYPE: &'static str;

    /// The name that [`keys::handler`](super::keys::handler) counts. Types with the same name share a budget.
    const HANDLER: &'static str = Self::TYPE;

    /// Validates the parsed payload. The text of an error goes to the client, as INVALID_ARGUMENT.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A message with one reply. The client sends a correlation ID, and the reply repeats it.
pub trait Rpc: Message {
    /// The type of the reply.
    type Reply: Message + Serialize;
}

/// The data of a connection, from [`authenticate`](super::RouterBuilder::authenticate): its user, and any state that
/// handlers and limits need.
pub trait ConnectionData: Send + Sync + 'static {
    /// Returns the user. An unknown user, `None`, is counted by client address.
    fn user(&self) -> Option<Key<'static>> {
        None
    }
}

/// Every user is unknown.
impl ConnectionData for () {}

/// The result of a handler, on its way out through the middleware.
#[derive(Debug)]
pub struct HandlerResponse {
    pub(super) reply: Option<Bytes>,
}

impl HandlerResponse {
    /// An empty response, for events. An RPC that ends with it is answered INTERNAL; see [`Context::reply`].
    pub const NONE: HandlerResponse = HandlerResponse { reply: None };
}

/// A return value of an event handler: nothing, or a result whose error goes to the client.
pub trait IntoResult {
    /// Converts into a result.
    fn into_result(self) -> Result<(), MessageError>;
}

impl IntoResult for () {
    fn into_result(self) -> Result<(), MessageError> {
        Ok(())
    }
}

impl IntoResult for Result<(), MessageError> {
    fn into_result(self) -> Result<(), MessageError> {
        self
    }
}

type HandlerFuture = BoxFuture<'static, Result<HandlerResponse, MessageError>>;
/// A handler with its parsed message.
type BoundHandler<D> = Box<dyn FnOnce(Context<D>) -> HandlerFuture + Send>;
type ParseFn<D> = Box<dyn Fn(&str) -> Result<BoundHandler<D>, MessageError> + Send + Sync>;
type MiddlewareFn<D> = Arc<dyn Fn(Context<D>, Next<D>) -> HandlerFuture + Send + Sync>;

/// Middleware around handlers.
pub(super) struct Middleware<D> {
    /// `None` for all types.
    message_type: Option<&'static str>,
    run: MiddlewareFn<D>,
}

impl<D: ConnectionData> Middleware<D> {
    pub(super) fn new<F, Fut>(message_type: Option<&'static str>, middleware: F) -> Self
    where
        F: Fn(Context<D>, Next<D>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HandlerResponse, MessageError>> + Send + 'static,
    {
        Middleware { message_type, run: Arc::new(move |context, next| Box::pin(middleware(context, next))) }
    }
}

/// The rest of the middleware, and the handler.
pub struct Next<D> {
    middleware: Arc<[MiddlewareFn<D>]>,
    next: usize,
    run: BoundHandler<D>,
}

impl<D> Next<D> {
    /// Runs the next middleware or the handler.
    pub fn run(mut self, context: Context<D>) -> BoxFuture<'static, Result<HandlerResponse, MessageError>> {
        match self.middleware.get(self.next).cloned() {
            Some(middleware) => {
                self.next += 1;
                middleware(context, self)
            }
            None => (self.run)(context),
        }
    }
}

impl<D> fmt::Debug for Next<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.middleware.len().saturating_sub(self.next);
        f.debug_struct("Next").field("middleware", &left).finish_non_exhaustive()
    }
}

/// The handler of one message type.
pub(super) struct Handler<D> {
    pub(super) message_type: &'static str,
    /// For [`keys::handler`](super::keys::handler).
    pub(super) name: &'static str,
    pub(super) is_rpc: bool,
    parse: ParseFn<D>,
    middleware: Arc<[MiddlewareFn<D>]>,
}

impl<D: ConnectionData> Handler<D> {
    pub(super) fn event<M, F, Fut>(handler: F) -> Self
    where
        M: Message + DeserializeOwned + Send + 'static,
        F: Fn(Context<D>, M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoResult> + Send + 'static,
    {
        Self::new::<M, _>(false, handler, |handler, context, message| {
            let handled = handler(context, message);
            Box::pin(async { handled.await.into_result().map(|()| HandlerResponse::NONE) })
        })
    }

    pub(super) fn rpc<M, F, Fut>(handler: F) -> Self
    where
        M: Rpc + DeserializeOwned + Send + 'static,
        F: Fn(RpcContext<D>, M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Reply, MessageError>> + Send + 'static,
    {
        Self::new::<M, _>(true, handler, |handler, context, message| {
            let Some(call) = RpcContext::new(context.clone()) else {
                return Box::pin(async { Err(MessageError::internal()) });
            };
            let handled = handler(call, message);
            Box::pin(async move { context.reply(&handled.await?) })
        })
    }

    fn new<M, F>(is_rpc: bool, handler: F, run: fn(&F, Context<D>, M) -> HandlerFuture) -> Self
    where
        M: Message + DeserializeOwned + Send + 'static,
        F: Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let parse = move |payload: &str| -> Result<BoundHandler<D>, MessageError> {
            let message: M = serde_json::from_str(payload).map_err(|error| MessageError::invalid(error.to_string()))?;
            message.validate().map_err(MessageError::invalid)?;
            let handler = Arc::clone(&handler);
            Ok(Box::new(move |context| run(&handler, context, message)))
        };
        Handler { message_type: M::TYPE, name: M::HANDLER, is_rpc, parse: Box::new(parse), middleware: Arc::new([]) }
    }

    /// Sets the middleware that applies to this type.
    pub(super) fn wrap(&mut self, all: &[Middleware<D>]) {
        let applies = |middleware: &&Middleware<D>| {
            middleware.message_type.is_none_or(|message_type| message_type == self.message_type)
        };
        self.middleware = all.iter().filter(applies).map(|middleware| Arc::clone(&middleware.run)).collect();
    }

    /// Parses the payload into the handler's type and validates it.
    pub(super) fn parse(&self, payload: &str) -> Result<Next<D>, MessageError> {
        Ok(Next { middleware: Arc::clone(&self.middleware), next: 0, run: (self.parse)(payload)? })
    }
}
