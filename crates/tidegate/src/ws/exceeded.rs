//! What happens when there is too much of something.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Code, ConnectionId, Error};

/// What there was too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A message was too long: bytes.
    Payload,
    /// Messages came too often: what this one cost, against the capacity of the limit.
    Rate,
    /// Too many calls are worked on at once for this connection.
    Calls,
    /// The connection has sent all the messages it may send.
    Messages,
}

/// A limit that was exceeded, for [`on_limit_exceeded`](super::RouterBuilder::on_limit_exceeded).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exceeded {
    /// What there was too much of.
    pub kind: Kind,
    /// How much there was.
    pub observed: u64,
    /// How much there may be.
    pub limit: u64,
    /// When it may be worth another try; none when it never is.
    pub retry_after: Option<Duration>,
    /// The name of the limit towards clients, of a rate.
    pub policy: Option<Arc<str>>,
    /// Whose message it was.
    pub connection: ConnectionId,
    /// The type of the message, if it got as far as that and a handler knows it.
    pub message_type: Option<&'static str>,
}

impl Exceeded {
    /// What the client is told.
    pub(super) fn error(&self) -> Error {
        let message = match self.kind {
            Kind::Payload => "Message too big",
            Kind::Rate => "Rate limit exceeded",
            Kind::Calls => "Too many calls at once",
            Kind::Messages => "No more messages on this connection",
        };
        // Only what may go through later is worth another try.
        let code = if self.retry_after.is_some() { Code::ResourceExhausted } else { Code::FailedPrecondition };
        let mut error =
            Error::new(code, message).with_detail("observed", self.observed).with_detail("limit", self.limit);
        if let Some(policy) = &self.policy {
            error = error.with_detail("policy", &**policy);
        }
        match self.retry_after {
            Some(span) => error.with_retry_after(span),
            None => error,
        }
    }
}

/// What happens to a message of which there was too much, and to who sent it. The handler runs in no case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExceeded {
    /// The client is told: RESOURCE_EXHAUSTED with when to come back, or FAILED_PRECONDITION when it never can succeed.
    Send,
    /// The connection is closed with this code.
    Close(u16),
    /// Nothing is sent: the hook does what there is to do.
    Custom,
}

impl OnExceeded {
    /// The connection is closed with 1013: try again later.
    pub const CLOSE: OnExceeded = OnExceeded::Close(close::TRY_AGAIN_LATER);
}

/// The close codes that this crate uses.
pub mod close {
    /// The program ends, or the server goes away.
    pub const GOING_AWAY: u16 = 1001;
    /// What came is against the protocol.
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// Text that is not UTF-8.
    pub const INVALID_TEXT: u16 = 1007;
    /// Against the rules of the house: not let in, too much noise, or not reading.
    pub const POLICY: u16 = 1008;
    /// A message that is too big.
    pub const TOO_BIG: u16 = 1009;
    /// A limit says to come back later.
    pub const TRY_AGAIN_LATER: u16 = 1013;
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Payload => "payload",
            Kind::Rate => "rate",
            Kind::Calls => "calls",
            Kind::Messages => "messages",
        })
    }
}
