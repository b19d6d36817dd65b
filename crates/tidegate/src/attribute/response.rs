//! A refusal over HTTP: what a layer answers.

use http::Response;

use super::Refusal;
use crate::http::response_with_defaults;

/// Marks in the extensions of a response that is a refusal: its headers say already what the attribute has to say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IsRefusal {
    /// Whether the layer's limit or another attribute's counts as well, of which the layer has something to say.
    pub(crate) besides: bool,
}

impl Refusal {
    /// What a layer answers to such a request: the one above if there is one, with its headers and its own response.
    pub fn to_response(&self) -> Response<String> {
        let outcome = self.outcome();
        let mut response = match &self.inner.rate_limit {
            Some(rate_limit) => rate_limit.answer(outcome),
            None => response_with_defaults(outcome),
        };
        response.extensions_mut().insert(IsRefusal { besides: self.inner.besides });
        response
    }
}

#[cfg(feature = "axum")]
mod axum {
    use axum::response::{IntoResponse, Response};

    use super::super::{FromRefusal, Refusal};

    impl IntoResponse for Refusal {
        fn into_response(self) -> Response {
            self.to_response().map(axum::body::Body::from)
        }
    }

    impl From<Refusal> for Response {
        fn from(refusal: Refusal) -> Self {
            refusal.into_response()
        }
    }

    impl FromRefusal for Response {
        fn from_refusal(refusal: Refusal) -> Self {
            refusal.into_response()
        }
    }
}
