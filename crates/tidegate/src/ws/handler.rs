//! What is done with a message, whatever its type.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tidegate_core::BoxFuture;

use super::{Call, CallContext, Context, Data, Error, Message};

/// What came of a message, on its way out through the middleware.
#[derive(Debug)]
pub struct Answer {
    pub(super) reply: Option<Bytes>,
}

impl Answer {
    /// Nothing: what events end with. A call that ends so is answered as INTERNAL; see [`Context::answer`].
    pub const NONE: Answer = Answer { reply: None };
}

/// What a handler of events may end with: nothing, or an error for the client.
pub trait IntoResult {
    /// As a result.
    fn into_result(self) -> Result<(), Error>;
}

impl IntoResult for () {
    fn into_result(self) -> Result<(), Error> {
        Ok(())
    }
}

impl IntoResult for Result<(), Error> {
    fn into_result(self) -> Result<(), Error> {
        self
    }
}

type Answered = BoxFuture<'static, Result<Answer, Error>>;
/// Runs a handler on a message that was read.
type Run<D> = Box<dyn FnOnce(Context<D>) -> Answered + Send>;
type Parse<D> = Box<dyn Fn(&str) -> Result<Run<D>, Error> + Send + Sync>;
type Middleware<D> = Arc<dyn Fn(Context<D>, Next<D>) -> Answered + Send + Sync>;

/// Something around handlers.
pub(super) struct Wrap<D> {
    /// For one type, or for all.
    message_type: Option<&'static str>,
    middleware: Middleware<D>,
}

impl<D: Data> Wrap<D> {
    pub(super) fn new<F, Fut>(message_type: Option<&'static str>, middleware: F) -> Self
    where
        F: Fn(Context<D>, Next<D>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Answer, Error>> + Send + 'static,
    {
        Wrap { message_type, middleware: Arc::new(move |context, next| Box::pin(middleware(context, next))) }
    }
}

/// The rest of the way to the handler.
pub struct Next<D> {
    wraps: Arc<[Middleware<D>]>,
    done: usize,
    run: Run<D>,
}

impl<D> Next<D> {
    /// Goes on.
    pub fn run(mut self, context: Context<D>) -> BoxFuture<'static, Result<Answer, Error>> {
        match self.wraps.get(self.done).cloned() {
            Some(wrap) => {
                self.done += 1;
                wrap(context, self)
            }
            None => (self.run)(context),
        }
    }
}

impl<D> fmt::Debug for Next<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.wraps.len().saturating_sub(self.done);
        f.debug_struct("Next").field("middleware", &left).finish_non_exhaustive()
    }
}

/// What is done with messages of one type.
pub(super) struct Handler<D> {
    pub(super) message_type: &'static str,
    /// What [`keys::handler`](super::keys::handler) counts it under.
    pub(super) name: &'static str,
    pub(super) is_call: bool,
    parse: Parse<D>,
    wraps: Arc<[Middleware<D>]>,
}

impl<D: Data> Handler<D> {
    pub(super) fn event<M, F, Fut>(handler: F) -> Self
    where
        M: Message + DeserializeOwned + Send + 'static,
        F: Fn(Context<D>, M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoResult> + Send + 'static,
    {
        Self::new::<M, _>(false, handler, |handler, context, message| {
            let handled = handler(context, message);
            Box::pin(async { handled.await.into_result().map(|()| Answer::NONE) })
        })
    }

    pub(super) fn call<M, F, Fut>(handler: F) -> Self
    where
        M: Call + DeserializeOwned + Send + 'static,
        F: Fn(CallContext<D>, M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Reply, Error>> + Send + 'static,
    {
        Self::new::<M, _>(true, handler, |handler, context, message| {
            let Some(call) = CallContext::new(context.clone()) else {
                return Box::pin(async { Err(Error::internal()) });
            };
            let handled = handler(call, message);
            Box::pin(async move { context.answer(&handled.await?) })
        })
    }

    fn new<M, F>(is_call: bool, handler: F, run: fn(&F, Context<D>, M) -> Answered) -> Self
    where
        M: Message + DeserializeOwned + Send + 'static,
        F: Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let parse = move |payload: &str| -> Result<Run<D>, Error> {
            let message: M = serde_json::from_str(payload).map_err(|error| Error::invalid(error.to_string()))?;
            message.validate().map_err(Error::invalid)?;
            let handler = Arc::clone(&handler);
            Ok(Box::new(move |context| run(&handler, context, message)))
        };
        Handler { message_type: M::TYPE, name: M::HANDLER, is_call, parse: Box::new(parse), wraps: Arc::new([]) }
    }

    /// Puts around it what is for its type.
    pub(super) fn wrap(&mut self, wraps: &[Wrap<D>]) {
        let is_for_it =
            |wrap: &&Wrap<D>| wrap.message_type.is_none_or(|message_type| message_type == self.message_type);
        self.wraps = wraps.iter().filter(is_for_it).map(|wrap| Arc::clone(&wrap.middleware)).collect();
    }

    /// Reads the payload into the handler's type and validates it.
    pub(super) fn parse(&self, payload: &str) -> Result<Next<D>, Error> {
        Ok(Next { wraps: Arc::clone(&self.wraps), done: 0, run: (self.parse)(payload)? })
    }
}
