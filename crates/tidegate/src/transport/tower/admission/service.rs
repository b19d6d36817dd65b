//! The service.

use std::mem;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::marking::Marking;
use super::{ResponseBody, ResponseFuture};
use crate::http::in_flight::Held;
use crate::http::{Gate, Incoming};
use crate::tower::{Protocol, RateLimited};

/// A service that guards how many of its requests are in flight, from an [`AdmissionLayer`](super::AdmissionLayer). Clones
/// share their permits.
#[derive(Debug, Clone)]
pub struct Admitting<S, P> {
    /// Its limits, which mark what they turn away.
    service: RateLimited<S, Marking<P>>,
    gate: Gate,
    protocol: Marking<P>,
}

impl<S, P: Clone> Admitting<S, P> {
    pub(super) fn new(service: S, gate: Gate, protocol: P) -> Self {
        let protocol = Marking(protocol);
        let service = RateLimited::new(service, gate.rate_limit.clone(), protocol.clone());
        Admitting { service, gate, protocol }
    }
}

impl<S, P, ReqBody, ResBody> Service<Request<ReqBody>> for Admitting<S, P>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    P: Protocol<ResBody>,
    ResBody: Body,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, P, ReqBody, ResBody>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let Gate { guards, rate_limit, .. } = &self.gate;
        let incoming = Incoming::of(&request);
        let Some(asking) = rate_limit.begin(&incoming) else {
            return ResponseFuture::serving(self.service.call_skipped(request), None, self.protocol.clone());
        };
        if asking.is_denied() {
            // Whom no limit admits does not get as far as the guards.
            let answer = self.service.call_demanding(asking.demand, request);
            return ResponseFuture::serving(answer, None, self.protocol.clone());
        }
        let (priority, ends) = (self.gate.priority_of(&incoming), self.gate.ends_of(&incoming));
        match asking.enter_now(guards, priority) {
            Some(Ok(permits)) => {
                let held = Held::new(permits, ends);
                let answer = self.service.call_demanding(asking.demand, request);
                ResponseFuture::serving(answer, Some(held), self.protocol.clone())
            }
            Some(Err(outcome)) => {
                let response = self.protocol.answer(rate_limit, &outcome, request.method());
                ResponseFuture::turned_away(response, self.protocol.clone())
            }
            None => {
                // The one that is ready goes with the request; what stays has to become ready first.
                let next = self.service.clone();
                let waits = (mem::replace(&mut self.service, next), request, ends);
                ResponseFuture::waiting(asking, guards.clone(), priority, waits, self.protocol.clone())
            }
        }
    }
}
