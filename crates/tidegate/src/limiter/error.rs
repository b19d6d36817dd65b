//! Errors of a limiter. A denial is a decision and not an error.

use tidegate_core::{InvalidCost, QuotaError, StoreError, StoreErrorKind};

use crate::net::NetworkError;

/// The error of a limiter that could not decide. It has at most two words, because it is returned beside every
/// decision.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No limit has this name.
    #[error(transparent)]
    UnknownLimit(Box<UnknownLimit>),
    /// The cost is invalid.
    #[error(transparent)]
    InvalidCost(#[from] InvalidCost),
    /// The quota does not fit the limit's settings.
    #[error(transparent)]
    Quota(Box<QuotaError>),
    /// The limit does not support the operation.
    #[error(transparent)]
    Unsupported(Box<Unsupported>),
    /// The request has no key, or not one for each limit.
    #[error("the request has no key, or not one for each limit, and no address of a client to stand in for one")]
    NoKey,
    /// The attribute has no limiter.
    #[error(
        "there is no limiter to ask: give the attribute one (`limiter = ...`), call the function under a layer, or set \
         a default (`tidegate::attribute::set_default_limiter`)"
    )]
    NoLimiter,
    /// `acquire` has no timer to wait with.
    #[error("acquire has nothing to wait with: give the builder a sleeper, or use the feature `tokio`")]
    NoSleeper,
    /// A guard has no runtime on which to settle its hold.
    #[error("there is no tokio runtime to settle the hold on when its guard is dropped: create the guard within one")]
    NoRuntime,
    /// The call must wait, because its store does I/O or it is an `acquire`. It was made without waiting.
    #[error("the answer has to be waited for: await the call, or use a store in process")]
    WouldBlock,
    /// The limiter was closed.
    #[error("the limiter is closed")]
    Closed,
    /// The store could not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The error of a name that no limit has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no limit named {name:?}: expected one of {}{}", known.join(", "), if *more > 0 { ", ..." } else { "" })]
pub struct UnknownLimit {
    /// The unknown name.
    pub name: String,
    /// Known names: all of them, or some if there are many.
    pub known: Vec<String>,
    /// The number of further known names.
    pub more: usize,
}

/// The error of an operation that a limit does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("limit {limit:?} cannot do that: {why}")]
pub struct Unsupported {
    /// The limit's name.
    pub limit: String,
    /// The reason.
    pub why: &'static str,
}

impl From<UnknownLimit> for Error {
    fn from(error: UnknownLimit) -> Self {
        Error::UnknownLimit(Box::new(error))
    }
}

impl From<QuotaError> for Error {
    fn from(error: QuotaError) -> Self {
        Error::Quota(Box::new(error))
    }
}

impl Error {
    pub(crate) fn unsupported(limit: &str, why: &'static str) -> Self {
        Error::Unsupported(Box::new(Unsupported { limit: limit.to_owned(), why }))
    }

    /// Returns whether this is a mistake in the calling program. No failure policy hides such an error, and a retry
    /// does not help.
    pub fn is_misuse(&self) -> bool {
        match self {
            Error::Store(error) => error.kind() == StoreErrorKind::Unsupported,
            Error::Closed => false,
            _ => true,
        }
    }

    /// Returns whether a retry can help.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Store(error) if error.is_retryable())
    }
}

/// The error of a limiter that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two limits have the same name.
    #[error("there are two limits named {0:?}")]
    DuplicateLimit(String),
    /// A setting is for a limit that does not exist.
    #[error("there is no limit named {name:?} to {what}: name the limit first")]
    UnknownLimit {
        /// The name.
        name: String,
        /// The setting.
        what: &'static str,
    },
    /// A deny list has an entry that is neither a key nor a network.
    #[error(transparent)]
    Deny(#[from] NetworkError),
    /// A store that does I/O has no timeout, because there is no timer to measure it.
    #[error(
        "the store does I/O, and there is no timer for its timeout: set `sleeper`, enable the feature `tokio`, or use \
         `bare_store`"
    )]
    NoTimer,
    /// A quota and its settings contradict each other.
    #[error("limit {name:?}: {error}")]
    Quota {
        /// The limit's name.
        name: String,
        /// The contradiction.
        error: QuotaError,
    },
}
