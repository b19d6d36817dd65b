//! What a program wants to be told of its connections.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tidegate_core::BoxFuture;

use super::{Connection, Error, Exceeded};

pub(super) type OnOpen<D> = Arc<dyn Fn(Connection<D>) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>;
pub(super) type OnClose<D> = Arc<dyn Fn(Connection<D>, Closed) -> BoxFuture<'static, ()> + Send + Sync>;
pub(super) type OnError<D> = Arc<dyn Fn(&Connection<D>, &Error) + Send + Sync>;
pub(super) type OnLimitExceeded = Arc<dyn Fn(&Exceeded) + Send + Sync>;

/// How a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// The code that the peer or this side has closed with; 1005 when the peer gave none, and 1006 when there was no
    /// goodbye.
    pub code: u16,
    /// Why, if somebody has said so.
    pub reason: String,
}

/// What a program wants to be told of its connections.
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
    pub(super) fn exceeded(&self, exceeded: &Exceeded) {
        contained(self.on_limit_exceeded.as_deref(), |hook| hook(exceeded));
    }

    pub(super) fn failed(&self, connection: &Connection<D>, error: &Error) {
        contained(self.on_error.as_deref(), |hook| hook(connection, error));
    }
}

/// A hook that panics is its own business. The panic's message has been printed by then.
fn contained<H: ?Sized>(hook: Option<&H>, call: impl FnOnce(&H)) {
    if let Some(hook) = hook {
        let _ = catch_unwind(AssertUnwindSafe(|| call(hook)));
    }
}
