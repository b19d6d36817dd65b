//! Extractors for axum handlers: the outcome of a request, and the limiter.

use std::convert::Infallible;

use axum::extract::{FromRef, FromRequestParts, OptionalFromRequestParts};
use axum::http::StatusCode;
use axum::http::request::Parts;

use crate::Limiter;
use crate::enforce::Outcome;

/// The answer to a handler that wants an outcome when there is none.
const NO_OUTCOME: &str = "No limit has handed over what it decided: the layer needs `RateLimit::extension`, and for \
    requests that it skips the handler takes an `Option<Outcome>`.";

/// Extracts the outcome of the request, if the layer has [`RateLimit::extension`](crate::http::RateLimit::extension).
impl<S: Sync> FromRequestParts<S> for Outcome {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let missing = (StatusCode::INTERNAL_SERVER_ERROR, NO_OUTCOME);
        parts.extensions.get::<Outcome>().cloned().ok_or(missing)
    }
}

/// Extracts `None` for a request that the layer has skipped.
impl<S: Sync> OptionalFromRequestParts<S> for Outcome {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get::<Outcome>().cloned())
    }
}

/// Extracts the limiter, if it is a part of the router's state.
impl<S: Sync> FromRequestParts<S> for Limiter
where
    Limiter: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        Ok(Limiter::from_ref(state))
    }
}
