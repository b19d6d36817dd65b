//! The layer.

use http::StatusCode;
use tower_layer::Layer;

use super::Admitting;
use crate::concurrency::Priority;
use crate::enforce::Guards;
use crate::http::{Gate, Incoming, RateLimit};
use crate::tower::Http;

/// Guards how many requests of a service are in flight, and then enforces limits. See the [module](super) for how it is
/// made.
#[derive(Debug, Clone)]
pub struct AdmissionLayer<P = Http> {
    gate: Gate,
    protocol: P,
}

impl AdmissionLayer {
    /// Guards how many requests are in flight: a [`Concurrency`](crate::concurrency::Concurrency), one
    /// [`PerKey`](crate::concurrency::PerKey), tenants that [share it](crate::concurrency::Fair), or several of them.
    ///
    /// What is answered to a request that is turned away goes into the body of the service's responses, as with a
    /// [`RateLimitLayer`](crate::tower::RateLimitLayer).
    pub fn new(guards: impl Into<Guards>) -> Self {
        AdmissionLayer { gate: Gate::new(RateLimit::unlimited()).guards(guards), protocol: Http }
    }
}

impl<P> AdmissionLayer<P> {
    /// The limits of requests that got in, as a [`RateLimitLayer`](crate::tower::RateLimitLayer) takes them; none unless
    /// said otherwise. What it says about keys, clients, answers and requests that are left alone is good for the guards,
    /// too: a guard for each key has the key of the first limit.
    #[must_use]
    pub fn limits(mut self, limits: impl Into<RateLimit>) -> Self {
        self.gate = self.gate.limits(limits);
        self
    }

    /// How much a request matters. Never let a client choose that.
    #[must_use]
    pub fn priority(mut self, priority: impl Fn(&Incoming<'_>) -> Priority + Send + Sync + 'static) -> Self {
        self.gate = self.gate.priority(priority);
        self
    }

    /// Which responses say that the work was wasted, such as `504`: none unless said otherwise, because a quick error uses
    /// capacity like any other answer. It sees statuses of HTTP, which are `200` for every call of gRPC.
    #[must_use]
    pub fn dropped_if(mut self, dropped: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.gate = self.gate.dropped_if(dropped);
        self
    }

    /// The same, answered in another way: by gRPC's statuses, for instance.
    pub fn answered_by<Q>(self, protocol: Q) -> AdmissionLayer<Q> {
        AdmissionLayer { gate: self.gate, protocol }
    }
}

/// The gate of other frameworks, as a layer.
impl From<Gate> for AdmissionLayer {
    fn from(gate: Gate) -> Self {
        AdmissionLayer { gate, protocol: Http }
    }
}

impl<S, P: Clone> Layer<S> for AdmissionLayer<P> {
    type Service = Admitting<S, P>;

    fn layer(&self, service: S) -> Self::Service {
        Admitting::new(service, self.gate.clone(), self.protocol.clone())
    }
}
