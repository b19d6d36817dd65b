//! What a handler has beside its message.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use tidegate_core::Timestamp;

use super::connection::gone;
use super::lock::lock;
use super::{Answer, Connection, Error, Message, wire};
use crate::enforce::Outcome;

/// What a handler has beside its message. Dereferences to the [`Connection`].
pub struct Context<D> {
    pub(super) connection: Connection<D>,
    pub(super) message_type: &'static str,
    pub(super) received: Timestamp,
    pub(super) outcome: Option<Arc<Outcome>>,
    pub(super) call: Option<Arc<CallState>>,
}

impl<D> Context<D> {
    /// The connection.
    pub fn connection(&self) -> &Connection<D> {
        &self.connection
    }

    /// The type of the message.
    pub fn message_type(&self) -> &'static str {
        self.message_type
    }

    /// When the message was received.
    pub fn received(&self) -> Timestamp {
        self.received
    }

    /// An answer of middleware's own, in place of the handler's: from a cache, for instance. Nothing for an event.
    pub fn answer<M: Message + Serialize>(&self, reply: &M) -> Result<Answer, Error> {
        let Some(call) = &self.call else { return Ok(Answer::NONE) };
        Ok(Answer { reply: Some(self.connection.write(M::TYPE, Some(&call.correlation_id), reply)?) })
    }

    /// What the limits said of the message: how much is left, for instance. None when nothing limits it.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_deref()
    }
}

/// A call on its way to its answer.
pub(super) struct CallState {
    pub(super) correlation_id: Box<str>,
    /// Whether the answer is on its way. Nothing may be said of the call after it.
    answered: Mutex<bool>,
}

impl CallState {
    pub(super) fn new(correlation_id: &str) -> Self {
        CallState { correlation_id: correlation_id.into(), answered: Mutex::new(false) }
    }

    /// No more progress from now on.
    pub(super) fn finish(&self) {
        *lock(&self.answered) = true;
    }
}

/// What the handler of a call has beside its message. Dereferences to the [`Context`].
///
/// The handler is dropped when the client gives the call up, when its time is over, and when the connection closes.
pub struct CallContext<D> {
    context: Context<D>,
    call: Arc<CallState>,
}

impl<D> CallContext<D> {
    pub(super) fn new(context: Context<D>) -> Option<Self> {
        let call = context.call.clone()?;
        Some(CallContext { context, call })
    }

    pub(super) fn correlation_id(&self) -> &str {
        &self.call.correlation_id
    }

    /// Says something before the answer. It is dropped, and false, when the client is behind with reading or the call has
    /// been answered.
    pub fn progress(&self, progress: &impl Serialize) -> Result<bool, Error> {
        let message = self.connection.write(wire::PROGRESS, Some(self.correlation_id()), progress)?;
        let answered = lock(&self.call.answered);
        if *answered { Ok(false) } else { self.connection.queue().offer(message, || ()).map_err(gone) }
    }
}

impl<D> Deref for Context<D> {
    type Target = Connection<D>;

    fn deref(&self) -> &Connection<D> {
        &self.connection
    }
}

impl<D> Deref for CallContext<D> {
    type Target = Context<D>;

    fn deref(&self) -> &Context<D> {
        &self.context
    }
}

impl<D> Clone for CallContext<D> {
    fn clone(&self) -> Self {
        CallContext { context: self.context.clone(), call: Arc::clone(&self.call) }
    }
}

impl<D> Clone for Context<D> {
    fn clone(&self) -> Self {
        Context {
            connection: self.connection.clone(),
            message_type: self.message_type,
            received: self.received,
            outcome: self.outcome.clone(),
            call: self.call.clone(),
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

impl<D> fmt::Debug for CallContext<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("CallContext");
        debug.field("context", &self.context).field("correlation_id", &self.call.correlation_id).finish()
    }
}
