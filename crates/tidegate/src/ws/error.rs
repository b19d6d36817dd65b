//! What is answered to a message that came to nothing.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// What went wrong, in the words of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// Nobody knows who it is.
    Unauthenticated,
    /// It may not do that.
    PermissionDenied,
    /// The message is not what it should be.
    InvalidArgument,
    /// It cannot be done as things are, and trying again does not help.
    FailedPrecondition,
    /// There is no such thing.
    NotFound,
    /// There is one already.
    AlreadyExists,
    /// Nothing here handles that.
    Unimplemented,
    /// The client has given it up.
    Cancelled,
    /// It took too long.
    DeadlineExceeded,
    /// There was too much of it.
    ResourceExhausted,
    /// Not now.
    Unavailable,
    /// It got into the way of something else.
    Aborted,
    /// A mistake in the program.
    Internal,
}

impl Code {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::Unauthenticated => "UNAUTHENTICATED",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::FailedPrecondition => "FAILED_PRECONDITION",
            Code::NotFound => "NOT_FOUND",
            Code::AlreadyExists => "ALREADY_EXISTS",
            Code::Unimplemented => "UNIMPLEMENTED",
            Code::Cancelled => "CANCELLED",
            Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Code::Unavailable => "UNAVAILABLE",
            Code::Aborted => "ABORTED",
            Code::Internal => "INTERNAL",
        }
    }

    /// Whether the same message may go through later.
    pub const fn is_retryable(self) -> bool {
        matches!(self, Code::DeadlineExceeded | Code::ResourceExhausted | Code::Unavailable | Code::Aborted)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is answered to a message that came to nothing. Everything in it goes to the client.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Error {
    code: Code,
    message: Cow<'static, str>,
    details: Map<String, Value>,
    retry_after: Option<Duration>,
}

impl Error {
    /// An error with what it says to the client.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Error { code, message: message.into(), details: Map::new(), retry_after: None }
    }

    /// The same, with something more about it.
    #[must_use]
    pub fn with_detail(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.details.insert(name.into(), value.into());
        self
    }

    /// The same, with when it may be worth another try. It says nothing for a code that is not
    /// [retryable](Code::is_retryable).
    #[must_use]
    pub fn with_retry_after(mut self, span: Duration) -> Self {
        self.retry_after = Some(span);
        self
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What it says to the client.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// When it may be worth another try.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after.filter(|_| self.code.is_retryable())
    }

    pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Code::InvalidArgument, message)
    }

    /// A mistake in the program, of which the client is told nothing.
    pub(super) fn internal() -> Self {
        Error::new(Code::Internal, "Internal error")
    }
}

/// As it stands in the payload of an error.
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", self.code.as_str())?;
        map.serialize_entry("message", &self.message)?;
        map.serialize_entry("details", &self.details)?;
        map.serialize_entry("retryable", &self.code.is_retryable())?;
        if let Some(span) = self.retry_after() {
            map.serialize_entry("retryAfterMs", &whole_millis(span))?;
        }
        map.end()
    }
}

/// Rounded up: who comes back that late is not too early.
fn whole_millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(error: &Error) -> String {
        serde_json::to_string(error).unwrap()
    }

    #[test]
    fn it_is_written_as_clients_read_it() {
        let error = Error::new(Code::ResourceExhausted, "Rate limit exceeded")
            .with_detail("limit", 5)
            .with_retry_after(Duration::from_micros(1_249_001));
        let expected = r#"{"code":"RESOURCE_EXHAUSTED","message":"Rate limit exceeded","details":{"limit":5},"retryable":true,"retryAfterMs":1250}"#;
        assert_eq!(written(&error), expected);
    }

    #[test]
    fn what_can_never_succeed_has_no_time_to_come_back() {
        let error = Error::new(Code::FailedPrecondition, "no").with_retry_after(Duration::from_secs(1));
        assert_eq!(written(&error), r#"{"code":"FAILED_PRECONDITION","message":"no","details":{},"retryable":false}"#);
        assert_eq!(error.retry_after(), None);
    }
}
