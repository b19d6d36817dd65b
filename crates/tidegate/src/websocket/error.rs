//! The error that answers a failed message, and its codes.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// An error code of the protocol, named as in gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The client is not authenticated.
    Unauthenticated,
    /// The client may not do this.
    PermissionDenied,
    /// The message is malformed or invalid.
    InvalidArgument,
    /// The state of the system forbids it, and a retry does not help.
    FailedPrecondition,
    /// The thing does not exist.
    NotFound,
    /// The thing exists already.
    AlreadyExists,
    /// No handler for this type exists.
    Unimplemented,
    /// The client aborted the RPC.
    Cancelled,
    /// The RPC timed out.
    DeadlineExceeded,
    /// A quota or bound is exceeded.
    ResourceExhausted,
    /// The service is unavailable for now.
    Unavailable,
    /// A conflict with another operation.
    Aborted,
    /// A programming error.
    Internal,
}

impl ErrorCode {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorCode::Unauthenticated => "UNAUTHENTICATED",
            ErrorCode::PermissionDenied => "PERMISSION_DENIED",
            ErrorCode::InvalidArgument => "INVALID_ARGUMENT",
            ErrorCode::FailedPrecondition => "FAILED_PRECONDITION",
            ErrorCode::NotFound => "NOT_FOUND",
            ErrorCode::AlreadyExists => "ALREADY_EXISTS",
            ErrorCode::Unimplemented => "UNIMPLEMENTED",
            ErrorCode::Cancelled => "CANCELLED",
            ErrorCode::DeadlineExceeded => "DEADLINE_EXCEEDED",
            ErrorCode::ResourceExhausted => "RESOURCE_EXHAUSTED",
            ErrorCode::Unavailable => "UNAVAILABLE",
            ErrorCode::Aborted => "ABORTED",
            ErrorCode::Internal => "INTERNAL",
        }
    }

    /// Returns whether a retry of the same message may succeed.
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            ErrorCode::DeadlineExceeded | ErrorCode::ResourceExhausted | ErrorCode::Unavailable | ErrorCode::Aborted
        )
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error that answers a message. All of it goes to the client.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct MessageError {
    code: ErrorCode,
    message: Cow<'static, str>,
    details: Map<String, Value>,
    retry_after: Option<Duration>,
}

impl MessageError {
    /// Returns an error with a message for the client.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        MessageError { code, message: message.into(), details: Map::new(), retry_after: None }
    }

    /// Adds a detail for the client.
    #[must_use]
    pub fn with_detail(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.details.insert(name.into(), value.into());
        self
    }

    /// Sets when a retry may succeed. Ignored for a code that is not [retryable](ErrorCode::is_retryable).
    #[must_use]
    pub fn with_retry_after(mut self, span: Duration) -> Self {
        self.retry_after = Some(span);
        self
    }

    /// Returns the code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns the message for the client.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns when a retry may succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after.filter(|_| self.code.is_retryable())
    }

    pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        MessageError::new(ErrorCode::InvalidArgument, message)
    }

    /// Returns the error for a programming error, which tells the client nothing.
    pub(super) fn internal() -> Self {
        MessageError::new(ErrorCode::Internal, "Internal error")
    }
}

/// The payload of an error message.
impl Serialize for MessageError {
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

/// Rounds up, so that a client that waits this long is never too early.
fn whole_millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(error: &MessageError) -> String {
        serde_json::to_string(error).unwrap()
    }

    #[test]
    fn error_is_written_in_the_wire_format() {
        let error = MessageError::new(ErrorCode::ResourceExhausted, "Rate limit exceeded")
            .with_detail("limit", 5)
            .with_retry_after(Duration::from_micros(1_249_001));
        let expected = r#"{"code":"RESOURCE_EXHAUSTED","message":"Rate limit exceeded","details":{"limit":5},"retryable":true,"retryAfterMs":1250}"#;
        assert_eq!(written(&error), expected);
    }

    #[test]
    fn error_that_is_not_retryable_has_no_retry_hint() {
        let error = MessageError::new(ErrorCode::FailedPrecondition, "no").with_retry_after(Duration::from_secs(1));
        assert_eq!(written(&error), r#"{"code":"FAILED_PRECONDITION","message":"no","details":{},"retryable":false}"#);
        assert_eq!(error.retry_after(), None);
    }
}
