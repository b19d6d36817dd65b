//! A request that its service works on.

use std::future::Future;
use std::pin::Pin;
#[cfg(feature = "macros")]
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use http::Response;

use super::Protocol;
#[cfg(feature = "macros")]
use super::scope::{self, Layer};
use crate::enforce::Outcome;
use crate::http::{Asking, RateLimit};

/// A request that its service works on, and what will have to be said of it.
#[derive(Default)]
pub(super) enum Admitted {
    /// It was left alone.
    #[default]
    Unasked,
    /// It was left alone by a layer whose settings are still good for a handler's attribute.
    #[cfg(feature = "macros")]
    Skipped(RateLimit),
    /// The layer's limits have admitted it.
    ByLayer(Asking, Outcome),
    /// The handler's attribute decides in place of the layer, and writes down what.
    #[cfg(feature = "macros")]
    ByHandler(Layer, Arc<OnceLock<Outcome>>),
}

impl Admitted {
    /// A request that this layer leaves alone.
    pub(super) fn skipped(rate_limit: &RateLimit) -> Self {
        #[cfg(feature = "macros")]
        return Admitted::Skipped(rate_limit.clone());
        #[cfg(not(feature = "macros"))]
        {
            let _ = rate_limit;
            Admitted::Unasked
        }
    }

    /// Lets the service work on it, in its scope.
    pub(super) fn poll<F: Future>(&mut self, response: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
        #[cfg(feature = "macros")]
        let _entered = scope::enter(self);
        response.poll(context)
    }
}

/// Writes into a response what is to be said of an outcome.
pub(super) fn tell<B>(
    protocol: &impl Protocol<B>,
    rate_limit: &RateLimit,
    outcome: &Outcome,
    response: &mut Response<B>,
) {
    #[cfg(feature = "macros")]
    if response.extensions().get::<crate::attribute::IsRefusal>().is_some() {
        return;
    }
    protocol.tell(rate_limit, outcome, response.headers_mut());
}
