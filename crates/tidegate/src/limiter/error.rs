//! Errors of a limiter. A denial is a decision and not an error.

use tidegate_core::{InvalidCost, QuotaError, StoreError, StoreErrorKind};

use crate::net::NetworkError;

/// A limiter could not answer. Two words at most: it travels beside every decision.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no limit of that name.
    #[error(transparent)]
    UnknownLimit(Box<UnknownLimit>),
    /// The cost is not a cost.
    #[error(transparent)]
    InvalidCost(#[from] InvalidCost),
    /// The quota does not fit the limit's settings.
    #[error(transparent)]
    Quota(Box<QuotaError>),
    /// This limit cannot do that.
    #[error(transparent)]
    Unsupported(Box<Unsupported>),
    /// Nobody knows who asks, or not every limit does.
    #[error("the request has no key, or not one for each limit, and no address of a client to stand in for one")]
    NoKey,
    /// An attribute has no limiter to ask.
    #[error(
        "there is no limiter to ask: give the attribute one (`limiter = ...`), call the function under a layer, or set \
         a default (`tidegate::attribute::set_default_limiter`)"
    )]
    NoLimiter,
    /// `acquire` has nothing to wait with.
    #[error("acquire has nothing to wait with: give the builder a sleeper, or use the feature `tokio`")]
    NoSleeper,
    /// A guard has no runtime to settle its hold on.
    #[error("there is no tokio runtime to settle the hold on when its guard is dropped: create the guard within one")]
    NoRuntime,
    /// A call that was to be answered without waiting has to wait, because its store does I/O or it is an `acquire`.
    #[error("the answer has to be waited for: await the call, or use a store in process")]
    WouldBlock,
    /// The limiter was closed.
    #[error("the limiter is closed")]
    Closed,
    /// The store could not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// There is no limit of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no limit named {name:?}: expected one of {}{}", known.join(", "), if *more > 0 { ", ..." } else { "" })]
pub struct UnknownLimit {
    /// The name that was asked for.
    pub name: String,
    /// Names there are: all of them, or a few when there are many.
    pub known: Vec<String>,
    /// How many there are beside those.
    pub more: usize,
}

/// A limit was asked for something it cannot do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("limit {limit:?} cannot do that: {why}")]
pub struct Unsupported {
    /// The limit's name.
    pub limit: String,
    /// What it cannot do.
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

    /// Whether this is a mistake in the calling program, which no failure policy hides and no retry mends.
    pub fn is_misuse(&self) -> bool {
        match self {
            Error::Store(error) => error.kind() == StoreErrorKind::Unsupported,
            Error::Closed => false,
            _ => true,
        }
    }

    /// Whether trying again can help.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Store(error) if error.is_retryable())
    }
}

/// A limiter cannot be built like that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two limits have the same name.
    #[error("there are two limits named {0:?}")]
    DuplicateLimit(String),
    /// A setting is for a limit that is not there.
    #[error("there is no limit named {name:?} to {what}: name the limit first")]
    UnknownLimit {
        /// The name.
        name: String,
        /// What was to be set.
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
    /// A quota and its settings do not go together.
    #[error("limit {name:?}: {error}")]
    Quota {
        /// The limit's name.
        name: String,
        /// What does not go together.
        error: QuotaError,
    },
}
