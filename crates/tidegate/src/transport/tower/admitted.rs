//! A request that its service works on.

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

#[cfg(feature = "macros")]
use super::scope::{self, Layer};
use super::{Protocol, Tells};
use crate::enforce::Outcome;
use crate::http::demand::Demand;
use crate::http::headers::Told;
use crate::http::{Asking, Incoming, RateLimit};

/// A request that has been decided about.
pub(super) type Decided = (Asking, Outcome);

/// A request that its service works on, and what will have to be said of it.
#[derive(Default)]
#[allow(clippy::large_enum_variant, reason = "the largest is the common one, and boxing it would cost each request")]
pub(super) enum Admitted {
    /// It was left alone.
    #[default]
    Unasked,
    /// It was left alone by a layer whose settings are still good for a handler's attribute.
    #[cfg(feature = "macros")]
    Skipped(RateLimit, Option<IpAddr>),
    /// The layer's limits have admitted it, and this is to be said of that, if anything is.
    Told(Option<Told>),
    /// The layer's limits have admitted it, and nothing is left but to say so.
    ToBeTold(RateLimit, Outcome),
    /// The layer's limits have admitted it.
    ByLayer(Asking, Outcome),
    /// The handler's attribute decides in place of the layer, and writes down what.
    #[cfg(feature = "macros")]
    ByHandler(Layer, Arc<OnceLock<Outcome>>),
}

impl Admitted {
    /// A request that the layer's limits have admitted.
    #[inline]
    pub(super) fn by_layer(rate_limit: &RateLimit, demand: Demand, outcome: Outcome, tells: Tells) -> Self {
        // An attribute may want to give back what was taken. Otherwise no more is carried along than there is to say.
        if cfg!(feature = "macros") || rate_limit.charges_later() {
            Admitted::ByLayer(Asking { rate_limit: rate_limit.clone(), demand }, outcome)
        } else {
            Admitted::to_be_told(rate_limit, outcome, tells)
        }
    }

    /// A request that the layer's limits have admitted, of which nobody wants more than that it is told.
    pub(super) fn to_be_told(rate_limit: &RateLimit, outcome: Outcome, tells: Tells) -> Self {
        if rate_limit.has_last_word(tells) {
            Admitted::ToBeTold(rate_limit.clone(), outcome)
        } else {
            Admitted::Unasked
        }
    }

    /// A request that this layer leaves alone.
    pub(super) fn skipped(rate_limit: &RateLimit, incoming: &Incoming<'_>) -> Self {
        #[cfg(feature = "macros")]
        return Admitted::Skipped(rate_limit.clone(), rate_limit.client(incoming).map(|client| client.address()));
        #[cfg(not(feature = "macros"))]
        {
            let _ = (rate_limit, incoming);
            Admitted::Unasked
        }
    }

    /// Lets the service work on it, in its scope.
    #[inline]
    pub(super) fn poll<F: Future>(&mut self, response: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
        #[cfg(feature = "macros")]
        let _entered = scope::enter(self);
        response.poll(context)
    }

    /// Says in the response what is to be said of the request. False when it is to be [charged](Self::charge) for first.
    #[inline]
    pub(super) fn conclude<B>(&mut self, protocol: &impl Protocol<B>, response: &mut Response<B>) -> bool {
        match self {
            Admitted::Unasked => {}
            Admitted::Told(told) => {
                if let Some(told) = told.take() {
                    told.write(response.headers_mut());
                }
            }
            Admitted::ToBeTold(rate_limit, outcome) => tell(protocol, rate_limit, outcome, response),
            Admitted::ByLayer(asking, outcome) => {
                if asking.is_charged(response.status(), response.headers()) {
                    match asking.charge_now() {
                        Some(charged) => *outcome = charged,
                        None => return false,
                    }
                }
                tell(protocol, asking.rate_limit(), outcome, response);
            }
            #[cfg(feature = "macros")]
            Admitted::Skipped(..) => {
                is_refusal(protocol, response);
            }
            #[cfg(feature = "macros")]
            Admitted::ByHandler(layer, told) => {
                if let Some(outcome) = told.get() {
                    tell(protocol, &layer.rate_limit, outcome, response);
                    // Whatever the program has made of it, a gRPC status or an error of its own.
                    if !outcome.is_allowed() {
                        protocol.show(response);
                    }
                }
            }
        }
        true
    }

    /// Charges for it.
    #[cold]
    pub(super) fn charge(&mut self) -> BoxFuture<'static, Decided> {
        let Admitted::ByLayer(asking, _) = mem::take(self) else { unreachable!("who was not asked is not charged") };
        Box::pin(async move {
            let outcome = asking.charge().await;
            (asking, outcome)
        })
    }
}

/// Writes into a response what is to be said of an outcome.
pub(super) fn tell<B, P: Protocol<B>>(
    protocol: &P,
    rate_limit: &RateLimit,
    outcome: &Outcome,
    response: &mut Response<B>,
) {
    #[cfg(feature = "macros")]
    if is_refusal(protocol, response) {
        return;
    }
    if rate_limit.has_last_word(P::TELLS) {
        protocol.tell(rate_limit, outcome, response.headers_mut());
    }
}

/// Whether a handler's own attribute has turned the request away in the place of the layer, which leaves that as it is then; those
/// above have limits of their own to tell of, and so has the nearest one where the attribute counts besides it.
#[cfg(feature = "macros")]
fn is_refusal<B>(protocol: &impl Protocol<B>, response: &mut Response<B>) -> bool {
    let Some(refusal) = response.extensions_mut().remove::<crate::attribute::IsRefusal>() else { return false };
    protocol.show(response);
    !refusal.besides
}
