//! The layer.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use tower_layer::Layer;

use super::Admitting;
use super::held::DroppedIf;
use crate::concurrency::Priority;
use crate::enforce::Guards;
use crate::http::{Incoming, RateLimit};
use crate::tower::Http;

/// Guards how many requests of a service are in flight, and then enforces limits. See the [module](super) for how it is
/// made.
#[derive(Debug, Clone)]
pub struct AdmissionLayer<P = Http> {
    settings: Settings,
    protocol: P,
}

/// What a service wants of its admission. Cheap to clone.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) guards: Guards,
    /// Who asks, who is left alone and what is answered, for the guards as well as for the limits.
    pub(super) rate_limit: RateLimit,
    pub(super) priority: Option<PriorityOf>,
    pub(super) dropped_if: Option<DroppedIf>,
}

type PriorityOf = Arc<dyn Fn(&Incoming<'_>) -> Priority + Send + Sync>;

impl AdmissionLayer {
    /// Guards how many requests are in flight: a [`Concurrency`](crate::concurrency::Concurrency), one
    /// [`PerKey`](crate::concurrency::PerKey), tenants that [share it](crate::concurrency::Fair), or several of them.
    ///
    /// What is answered to a request that is turned away goes into the body of the service's responses, as with a
    /// [`RateLimitLayer`](crate::tower::RateLimitLayer).
    pub fn new(guards: impl Into<Guards>) -> Self {
        let settings =
            Settings { guards: guards.into(), rate_limit: RateLimit::unlimited(), priority: None, dropped_if: None };
        AdmissionLayer { settings, protocol: Http }
    }
}

impl<P> AdmissionLayer<P> {
    /// The limits of requests that got in, as a [`RateLimitLayer`](crate::tower::RateLimitLayer) takes them; none unless
    /// said otherwise. What it says about keys, clients, answers and requests that are left alone is good for the guards,
    /// too: a guard for each key has the key of the first limit.
    #[must_use]
    pub fn limits(mut self, limits: impl Into<RateLimit>) -> Self {
        self.settings.rate_limit = limits.into();
        self
    }

    /// How much a request matters. Never let a client choose that.
    #[must_use]
    pub fn priority(mut self, priority: impl Fn(&Incoming<'_>) -> Priority + Send + Sync + 'static) -> Self {
        self.settings.priority = Some(Arc::new(priority));
        self
    }

    /// Which responses say that the work was wasted, such as `504`: none unless said otherwise, because a quick error uses
    /// capacity like any other answer. It sees statuses of HTTP, which are `200` for every call of gRPC.
    #[must_use]
    pub fn dropped_if(mut self, dropped: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.settings.dropped_if = Some(Arc::new(dropped));
        self
    }

    /// The same, answered in another way: by gRPC's statuses, for instance.
    pub fn answered_by<Q>(self, protocol: Q) -> AdmissionLayer<Q> {
        AdmissionLayer { settings: self.settings, protocol }
    }
}

impl<S, P: Clone> Layer<S> for AdmissionLayer<P> {
    type Service = Admitting<S, P>;

    fn layer(&self, service: S) -> Self::Service {
        Admitting::new(service, self.settings.clone(), self.protocol.clone())
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { guards, rate_limit, .. } = self;
        f.debug_struct("Settings").field("guards", guards).field("rate_limit", rate_limit).finish_non_exhaustive()
    }
}
