//! The layer.

use tower_layer::Layer;

use super::{Http, RateLimited};
use crate::http::RateLimit;

/// Puts limits in front of a service. See the [module](super) for how it is made.
#[derive(Debug, Clone)]
pub struct RateLimitLayer<P = Http> {
    rate_limit: RateLimit,
    protocol: P,
}

impl RateLimitLayer {
    /// Enforces a limit of a limiter (`(&limiter, "api")`), a bare quota, an [`Enforcer`](crate::enforce::Enforcer), or
    /// whatever a [`RateLimit`] says.
    ///
    /// What is answered to a request that is turned away goes into the body of the service's responses, so that has to
    /// be one that can be made of text, such as axum's, `Full<Bytes>` or lambda_http's. For others, put
    /// `tower_http::map_response_body::MapResponseBodyLayer::new(axum::body::Body::new)` below this layer.
    pub fn new(limits: impl Into<RateLimit>) -> Self {
        RateLimitLayer { rate_limit: limits.into(), protocol: Http }
    }
}

impl<P> RateLimitLayer<P> {
    /// The same limits, answered in another way.
    pub fn answered_by<Q>(self, protocol: Q) -> RateLimitLayer<Q> {
        RateLimitLayer { rate_limit: self.rate_limit, protocol }
    }
}

impl<S, P: Clone> Layer<S> for RateLimitLayer<P> {
    type Service = RateLimited<S, P>;

    fn layer(&self, service: S) -> RateLimited<S, P> {
        RateLimited::new(service, self.rate_limit.clone(), self.protocol.clone())
    }
}
