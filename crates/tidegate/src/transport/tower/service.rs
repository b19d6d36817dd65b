//! The service.

use std::mem;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::admitted::Admitted;
use super::{Protocol, ResponseFuture};
use crate::http::at_once::AtOnce;
use crate::http::demand::Demand;
use crate::http::{Asking, Incoming, RateLimit};

/// A service with limits in front of it, from a [`RateLimitLayer`](super::RateLimitLayer). Clones share their limits.
#[derive(Debug, Clone)]
pub struct RateLimited<S, P> {
    service: S,
    rate_limit: RateLimit,
    protocol: P,
}

impl<S, P> RateLimited<S, P> {
    pub(super) fn new(service: S, rate_limit: RateLimit, protocol: P) -> Self {
        RateLimited { service, rate_limit, protocol }
    }
}

impl<S, P, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimited<S, P>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    P: Protocol<ResBody>,
{
    type Response = Response<ResBody>;
    type Error = S::Error;
    type Future = ResponseFuture<S, P, ReqBody, ResBody>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // Also for what will be turned away: nobody knows that yet, and a service that is not ready is none.
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (rate_limit, protocol) = (&self.rate_limit, &self.protocol);
        match rate_limit.at_once(&Incoming::of(&request), P::TELLS) {
            AtOnce::Admitted => ResponseFuture::told(&mut self.service, request, None, protocol),
            AtOnce::Told(told) => ResponseFuture::told(&mut self.service, request, Some(told), protocol),
            AtOnce::Denied(denial) => {
                ResponseFuture::turned_away(protocol.deny(rate_limit, &denial, request.method()), protocol.clone())
            }
            AtOnce::Answered(outcome) if outcome.is_allowed() => {
                let admitted = Admitted::to_be_told(rate_limit, outcome, P::TELLS);
                ResponseFuture::serving(self.service.call(request), admitted, protocol.clone())
            }
            AtOnce::Answered(outcome) => {
                let response = protocol.answer(rate_limit, &outcome, request.method());
                ResponseFuture::turned_away(response, protocol.clone())
            }
            AtOnce::Waits(demand) => self.call_waiting(demand, request),
            AtOnce::Demands(demand) => self.call_demanding(demand, request),
            AtOnce::Skipped => self.call_skipped(request),
        }
    }
}

impl<S, P> RateLimited<S, P> {
    /// Goes on with a request that no limit is about.
    pub(super) fn call_skipped<ReqBody, ResBody>(
        &mut self,
        request: Request<ReqBody>,
    ) -> ResponseFuture<S, P, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
        P: Protocol<ResBody>,
    {
        let admitted = Admitted::skipped(&self.rate_limit, &Incoming::of(&request));
        ResponseFuture::serving(self.service.call(request), admitted, self.protocol.clone())
    }

    /// Goes on with a request that was begun with.
    #[inline]
    pub(super) fn call_demanding<ReqBody, ResBody>(
        &mut self,
        demand: Demand,
        mut request: Request<ReqBody>,
    ) -> ResponseFuture<S, P, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
        P: Protocol<ResBody>,
    {
        let (rate_limit, protocol) = (&self.rate_limit, self.protocol.clone());
        match demand.decide_now(rate_limit) {
            Some(outcome) if outcome.is_allowed() => {
                rate_limit.tell_handler(&outcome, request.extensions_mut());
                let admitted = Admitted::by_layer(rate_limit, demand, outcome, P::TELLS);
                ResponseFuture::serving(self.service.call(request), admitted, protocol)
            }
            Some(outcome) => {
                ResponseFuture::turned_away(protocol.answer(rate_limit, &outcome, request.method()), protocol)
            }
            None => self.call_waiting(demand, request),
        }
    }

    /// Goes on with a request whose limits have to be waited for.
    fn call_waiting<ReqBody, ResBody>(
        &mut self,
        demand: Demand,
        request: Request<ReqBody>,
    ) -> ResponseFuture<S, P, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
        P: Protocol<ResBody>,
    {
        let asking = Asking { rate_limit: self.rate_limit.clone(), demand };
        // The one that is ready goes with the request; what stays has to become ready first.
        let next = self.service.clone();
        ResponseFuture::waiting(asking, mem::replace(&mut self.service, next), request, self.protocol.clone())
    }
}
