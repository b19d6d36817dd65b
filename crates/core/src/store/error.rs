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
    /// Too many calls wait for it in this process. It was not called, and may be well. Trying again can help.
    Overloaded,
    /// It cannot decide about this key now: others change the key faster, or it moves to another node. Trying again can
    /// help; the store itself is well.
    Contended,
    /// What is stored under the key is not ours, or is damaged. Trying again does not help.
    Corrupt,
    /// It cannot do what was asked, whoever asks. Trying again does not help, and no failure policy hides it.
    Unsupported,
}

impl StoreErrorKind {
    /// The name used in metrics and logs.
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

/// A store could not decide. Says whether trying again can help.
#[derive(Debug, Clone)]
pub struct StoreError(Arc<ErrorDetails>); // one word: it travels beside every decision

#[derive(Debug)]
struct ErrorDetails {
    kind: StoreErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error of this kind.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        StoreError(Arc::new(ErrorDetails { kind, message: message.into(), source: None }))
    }

    /// An error of this kind, caused by `source`.
    pub fn caused_by(
        kind: StoreErrorKind,
        message: impl Into<String>,
        source: impl Error + Send + Sync + 'static,
    ) -> Self {
        StoreError(Arc::new(ErrorDetails { kind, message: message.into(), source: Some(Box::new(source)) }))
    }

    /// What went wrong.
    pub fn kind(&self) -> StoreErrorKind {
        self.0.kind
    }

    /// What went wrong, in words, without the kind.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether trying again can help.
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
