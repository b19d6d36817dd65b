//! The error of a function with `#[limit]`, and its HTTP response.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_core::{Reason, ceil_seconds};

use crate::enforce::{LimitDecision, Outcome};
#[cfg(feature = "http")]
use crate::http::{LimitHeaders, RateLimit, problem};

/// The error of a call that was not admitted, with its outcome. As small as a pointer, because results carry it.
#[derive(Debug, Clone)]
pub struct LimitError {
    inner: Box<LimitErrorInner>,
}

#[derive(Debug, Clone)]
struct LimitErrorInner {
    outcome: Outcome,
    /// The settings of the layer above.
    #[cfg(feature = "http")]
    rate_limit: Option<RateLimit>,
    /// Whether another limit has counted the request as well.
    #[cfg(feature = "http")]
    in_addition: bool,
}

impl LimitError {
    pub(super) fn new(outcome: Outcome) -> Self {
        let inner = LimitErrorInner {
            outcome,
            #[cfg(feature = "http")]
            rate_limit: None,
            #[cfg(feature = "http")]
            in_addition: false,
        };
        LimitError { inner: Box::new(inner) }
    }

    /// Answers like the layer with these settings. `in_addition` tells whether that layer or another attribute counts
    /// the request as well.
    #[cfg(feature = "tower")]
    pub(super) fn with_layer(mut self, rate_limit: RateLimit, in_addition: bool) -> Self {
        self.inner.rate_limit = Some(rate_limit);
        self.inner.in_addition = in_addition;
        self
    }

    /// Returns the outcome.
    pub fn outcome(&self) -> &Outcome {
        &self.inner.outcome
    }

    /// Returns when a retry may succeed. `None` if that is unknown or never.
    pub fn retry_after(&self) -> Option<Duration> {
        self.outcome().retry_after()
    }

    fn limit_decision(&self) -> Option<&LimitDecision> {
        self.outcome().limit_decisions().first()
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = self.outcome().error() {
            return write!(f, "the limit could not be asked: {error}");
        }
        let Some(limit) = self.limit_decision() else { return f.write_str("refused") };
        let name = limit.policy();
        match (limit.decision().reason(), self.retry_after()) {
            (Some(Reason::Deny), _) => write!(f, "on the deny list of the limit {name:?}"),
            (Some(Reason::CostExceedsCapacity), _) => {
                write!(f, "the cost is more than the whole capacity of the limit {name:?}")
            }
            (Some(Reason::Store), _) => {
                write!(f, "the cost is more than is admitted while the store of the limit {name:?} is away")
            }
            (_, Some(wait)) => write!(f, "the limit {name:?} is used up: try again in {} s", ceil_seconds(wait)),
            (_, None) => write!(f, "the limit {name:?} is used up"),
        }
    }
}

impl Error for LimitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.outcome().error().map(|error| error as _)
    }
}

/// A return type of functions with `#[limit]`: one that can hold a [`LimitError`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot hold the error of `#[limit]`",
    label = "expected a type that can hold a `LimitError`",
    note = "return a `Result` whose error is `tidegate::attribute::LimitError` or implements `From` of it",
    note = "with the feature `axum`, a `Response` or `impl IntoResponse` works too"
)]
pub trait FromLimitError {
    /// Returns the error as this type.
    fn from_limit_error(error: LimitError) -> Self;
}

impl<T, E: From<LimitError>> FromLimitError for Result<T, E> {
    fn from_limit_error(error: LimitError) -> Self {
        Err(E::from(error))
    }
}

/// Marks the extensions of a response whose headers already describe the attribute's limit.
#[cfg(feature = "http")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttributeResponse {
    /// Whether a layer or another attribute counts the request as well, and may add headers.
    pub(crate) in_addition: bool,
}

#[cfg(feature = "http")]
impl LimitError {
    /// Returns the response that a layer would give: the layer above if there is one, with its headers and custom
    /// denial.
    pub fn to_response(&self) -> ::http::Response<String> {
        let outcome = self.outcome();
        let mut response = match &self.inner.rate_limit {
            Some(rate_limit) => rate_limit.response(outcome),
            None => problem::response(outcome, &LimitHeaders::default()),
        };
        response.extensions_mut().insert(AttributeResponse { in_addition: self.inner.in_addition });
        response
    }
}

#[cfg(feature = "axum")]
mod axum {
    use axum::response::{IntoResponse, Response};

    use super::{FromLimitError, LimitError};

    impl IntoResponse for LimitError {
        fn into_response(self) -> Response {
            self.to_response().map(axum::body::Body::from)
        }
    }

    impl From<LimitError> for Response {
        fn from(error: LimitError) -> Self {
            error.into_response()
        }
    }

    impl FromLimitError for Response {
        fn from_limit_error(error: LimitError) -> Self {
            error.into_response()
        }
    }
}
