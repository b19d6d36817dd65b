//! Errors of a store.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The kind of a store's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It cannot be reached or refuses to serve. Trying again can help.
    Unavailable,
    /// It did not answer in time. Trying again can help.
    Timeout,
    /// Too many calls wait for it, in this process or in the store. It works. Trying again can help.
    Overloaded,
    /// It cannot decide about this key now: others change the key faster, or it moves to another node. Trying again can
    /// help; the store itself is well.
    Contended,
    /// The value under the key is damaged or is not Tidegate's. A retry does not help.
    Corrupt,
    /// The store cannot do this operation for any caller. A retry does not help, and no failure policy hides the error.
    Unsupported,
}

impl StoreErrorKind {
    /// Returns the name used in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            StoreErrorKind::Unavailable => "unavailable",
            StoreErrorKind::Timeout => "timeout",
            StoreErrorKind::Overloaded => "overloaded",
            StoreErrorKind::Contended => "contended",
            StoreErrorKind::Corrupt => "corrupt",
            StoreErrorKind::Unsupported => "unsupported",
        }
    }

    /// Returns the kind in words, without details of the store: a text for clients.
    pub const fn description(self) -> &'static str {
        match self {
            StoreErrorKind::Unavailable => "store unavailable",
            StoreErrorKind::Timeout => "store timed out",
            StoreErrorKind::Overloaded => "too many calls wait for the store",
            StoreErrorKind::Contended => "store is contended",
            StoreErrorKind::Corrupt => "stored state is not usable",
            StoreErrorKind::Unsupported => "not supported by this store",
        }
    }
}

/// The error of a store that could not decide. [`StoreError::is_retryable`] says whether a retry can help.
#[derive(Debug, Clone)]
pub struct StoreError(Arc<ErrorDetails>); // one word: it travels beside every decision

#[derive(Debug)]
struct ErrorDetails {
    kind: StoreErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error of this kind.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        StoreError(Arc::new(ErrorDetails { kind, message: message.into(), source: None }))
    }

    /// Creates an error of this kind, caused by `source`.
    pub fn caused_by(
        kind: StoreErrorKind,
        message: impl Into<String>,
        source: impl Error + Send + Sync + 'static,
    ) -> Self {
        StoreError(Arc::new(ErrorDetails { kind, message: message.into(), source: Some(Box::new(source)) }))
    }

    /// Returns the kind.
    pub fn kind(&self) -> StoreErrorKind {
        self.0.kind
    }

    /// Returns the message, without the kind.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns whether a retry can help.
    pub fn is_retryable(&self) -> bool {
        !matches!(self.0.kind, StoreErrorKind::Corrupt | StoreErrorKind::Unsupported)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.description(), self.0.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
