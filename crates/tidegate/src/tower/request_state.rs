//! The state of a request while its service works on it.

use std::future::Future;
use std::mem;
#[cfg(feature = "macros")]
use std::net::IpAddr;
use std::pin::Pin;
#[cfg(feature = "macros")]
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use http::Response;
use tidegate_core::BoxFuture;

use super::ResponseFormat;
#[cfg(feature = "macros")]
use super::scope::{self, LayerSettings};
use crate::enforce::Outcome;
use crate::http::{PendingRequest, RateLimit, RequestHead};

/// A request with the outcome of its limits.
pub(super) type DecidedRequest = (PendingRequest, Outcome);

/// A request that its service works on.
#[derive(Default)]
#[allow(clippy::large_enum_variant, reason = "the largest is the common one, and boxing it would cost each request")]
pub(super) enum RequestState {
    /// The layer has skipped it.
    #[default]
    Skipped,
    /// The layer has skipped it, but its policy applies to a handler's attribute.
    #[cfg(feature = "macros")]
    SkippedWithPolicy(RateLimit, Option<IpAddr>),
    /// The layer's limits have admitted it.
    Admitted(PendingRequest, Outcome),
    /// The handler's attribute decides in place of the layer, and records the outcome.
    #[cfg(feature = "macros")]
    DecidedByHandler(LayerSettings, Arc<OnceLock<Outcome>>),
}

impl RequestState {
    /// Creates the state of a request that the layer skips.
    pub(super) fn skipped(rate_limit: &RateLimit, head: &RequestHead<'_>) -> Self {
        #[cfg(feature = "macros")]
        return RequestState::SkippedWithPolicy(
            rate_limit.clone(),
            rate_limit.client(head).map(|client| client.address()),
        );
        #[cfg(not(feature = "macros"))]
        {
            let _ = (rate_limit, head);
            RequestState::Skipped
        }
    }

    /// Polls the service, in the scope of this request.
    #[inline]
    pub(super) fn poll<F: Future>(&mut self, response: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
        #[cfg(feature = "macros")]
        let _entered = scope::enter(self);
        response.poll(context)
    }

    /// Writes the headers of the limits into the response. Returns false if the request must be [charged](Self::charge)
    /// first.
    pub(super) fn finish<B>(&mut self, format: &impl ResponseFormat<B>, response: &mut Response<B>) -> bool {
        match self {
            RequestState::Skipped => {}
            RequestState::Admitted(pending, outcome) => {
                if pending.should_charge(response.status(), response.headers()) {
                    match pending.try_charge() {
                        Some(charged) => *outcome = charged,
                        None => return false,
                    }
                }
                write_headers(format, pending.rate_limit(), outcome, response);
            }
            #[cfg(feature = "macros")]
            RequestState::SkippedWithPolicy(..) => {
                is_attribute_denial(format, response);
            }
            #[cfg(feature = "macros")]
            RequestState::DecidedByHandler(layer, recorded) => {
                if let Some(outcome) = recorded.get() {
                    write_headers(format, &layer.rate_limit, outcome, response);
                    // Also for a denial that the program has converted into a gRPC status or an error of its own.
                    if !outcome.is_allowed() {
                        format.on_attribute_denial(response);
                    }
                }
            }
        }
        true
    }

    /// Charges for the request.
    #[cold]
    pub(super) fn charge(&mut self) -> BoxFuture<'static, DecidedRequest> {
        let RequestState::Admitted(pending, _) = mem::take(self) else {
            unreachable!("only an admitted request is charged")
        };
        Box::pin(async move {
            let outcome = pending.charge().await;
            (pending, outcome)
        })
    }
}

/// Writes the headers of an outcome into a response.
pub(super) fn write_headers<B, F: ResponseFormat<B>>(
    format: &F,
    rate_limit: &RateLimit,
    outcome: &Outcome,
    response: &mut Response<B>,
) {
    #[cfg(feature = "macros")]
    if is_attribute_denial(format, response) {
        return;
    }
    format.write_headers(rate_limit, outcome, response.headers_mut());
}

/// Returns whether a handler's own attribute has denied the request in place of the layer, which then leaves the
/// response as it is. Outer layers report their own limits. So does the nearest layer, if the attribute counts in
/// addition to it.
#[cfg(feature = "macros")]
fn is_attribute_denial<B>(format: &impl ResponseFormat<B>, response: &mut Response<B>) -> bool {
    let Some(refusal) = response.extensions_mut().remove::<crate::attribute::AttributeResponse>() else { return false };
    format.on_attribute_denial(response);
    !refusal.in_addition
}
