//! The layer that bounds the requests in flight, and then enforces their limits.
//!
//! ```
//! use tidegate::concurrency::{Concurrency, Priority};
//! use tidegate::tower::AdmissionLayer;
//! use tidegate::{Limiter, Quota, seconds};
//!
//! // At most a hundred at once, of which ordinary requests leave ten to critical ones.
//! let layer = AdmissionLayer::new(Concurrency::fixed(100).reserve(10)).priority(|head| match head.uri().path() {
//!     "/login" => Priority::Critical,
//!     _ => Priority::Default,
//! });
//!
//! // And ten a second for each client.
//! let limiter = Limiter::builder().limit("api", Quota::token_bucket(10, seconds(1))?).build()?;
//! let layer = layer.limits(limiter.enforcer("api")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request is in flight from its admission until the last piece of its response's body has been sent to the server.
//! So streams, server-sent events and gRPC's streams count while they run. The permit moves from the future of the
//! response into its body, and is released exactly once:
//!
//! | event | completion |
//! | --- | --- |
//! | the body ends, with any status | [success](crate::concurrency::Completion::Success), or dropped if [`AdmissionLayer::dropped_if`] returns true |
//! | the service or the body fails, the client disconnects, the stream is reset, the handler panics | [dropped](crate::concurrency::Completion::Dropped), or ignored if that came sooner than work usually takes |
//! | its limits, a handler's `#[limit]` or an inner admission reject it | [ignored](crate::concurrency::Completion::Ignored): no work was done |
//!
//! A separate [`RateLimitLayer`](super::RateLimitLayer) below this one counts as work. Pass its limits to
//! [`AdmissionLayer::limits`] instead.
//!
//! A request that switches protocols (`101`, `CONNECT`) is in flight only until that response.

mod body;

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use tidegate_core::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use super::{HttpFormat, RateLimitFuture, RateLimitService, ResponseFormat};
use crate::concurrency::Priority;
use crate::enforce::{ConcurrencyGuards, Outcome, Permits};
use crate::http::lifecycle::{EndRules, HeldPermits};
use crate::http::{Gate, PendingRequest, RateLimit, RequestHead};
pub use body::ResponseBody;

/// A layer that bounds the requests of a service in flight, and then enforces limits. See the [module](super) for
/// examples.
#[derive(Debug, Clone)]
pub struct AdmissionLayer<F = HttpFormat> {
    gate: Gate,
    format: F,
}

impl AdmissionLayer {
    /// Guards the number of requests in flight: by a [`Concurrency`](crate::concurrency::Concurrency), a
    /// [`PerKey`](crate::concurrency::PerKey), tenants that [share](crate::concurrency::FairConcurrency) it, or several
    /// of them.
    ///
    /// The response to a rejected request has a body of the service's type, as with a
    /// [`RateLimitLayer`](super::RateLimitLayer).
    pub fn new(guards: impl Into<ConcurrencyGuards>) -> Self {
        AdmissionLayer { gate: Gate::new(RateLimit::unlimited()).guards(guards), format: HttpFormat }
    }
}

impl<F> AdmissionLayer<F> {
    /// Sets the limits of requests that pass the guards, as a [`RateLimitLayer`](super::RateLimitLayer) takes them.
    /// Defaults to none. Their keys, clients, responses and skipped requests also apply to the guards: a guard for each
    /// key has the key of the first limit.
    #[must_use]
    pub fn limits(mut self, limits: impl Into<RateLimit>) -> Self {
        self.gate = self.gate.limits(limits);
        self
    }

    /// Sets the priority of a request. Never let a client choose it.
    #[must_use]
    pub fn priority(mut self, priority: impl Fn(&RequestHead<'_>) -> Priority + Send + Sync + 'static) -> Self {
        self.gate = self.gate.priority(priority);
        self
    }

    /// Sets the statuses of wasted work, such as `504`. Defaults to none, because a quick error uses capacity like any
    /// other answer. The statuses are those of HTTP, which are `200` for every gRPC call.
    #[must_use]
    pub fn dropped_if(mut self, dropped: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.gate = self.gate.dropped_if(dropped);
        self
    }

    /// Answers denied requests in another format, such as gRPC's.
    pub fn with_format<G>(self, format: G) -> AdmissionLayer<G> {
        AdmissionLayer { gate: self.gate, format }
    }
}

/// Converts a gate of other frameworks into a layer.
impl From<Gate> for AdmissionLayer {
    fn from(gate: Gate) -> Self {
        AdmissionLayer { gate, format: HttpFormat }
    }
}

impl<S, F: Clone> Layer<S> for AdmissionLayer<F> {
    type Service = AdmissionService<S, F>;

    fn layer(&self, service: S) -> Self::Service {
        AdmissionService::new(service, self.gate.clone(), self.format.clone())
    }
}

/// A service that bounds its requests in flight, from an [`AdmissionLayer`]. Clones share their permits.
#[derive(Debug, Clone)]
pub struct AdmissionService<S, F> {
    /// The limits, which mark the requests that they reject.
    service: RateLimitService<S, MarkedFormat<F>>,
    gate: Gate,
    format: MarkedFormat<F>,
}

impl<S, F: Clone> AdmissionService<S, F> {
    pub(super) fn new(service: S, gate: Gate, format: F) -> Self {
        let format = MarkedFormat(format);
        let service = RateLimitService::new(service, gate.rate_limit.clone(), format.clone());
        AdmissionService { service, gate, format }
    }
}

impl<S, F, ReqBody, ResBody> Service<Request<ReqBody>> for AdmissionService<S, F>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    F: ResponseFormat<ResBody>,
    ResBody: Body,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = AdmissionFuture<S, F, ReqBody, ResBody>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let Gate { guards, rate_limit, .. } = &self.gate;
        let head = RequestHead::from_request(&request);
        let Some(pending) = rate_limit.begin(&head) else {
            return AdmissionFuture::serving(self.service.call_skipped(request), None, self.format.clone());
        };
        if pending.is_denied() {
            // A denied client takes no place among the requests in flight.
            let response = self.service.call_limited(pending, request);
            return AdmissionFuture::serving(response, None, self.format.clone());
        }
        let (priority, ends) = (self.gate.priority_of(&head), self.gate.end_rules(&head));
        match pending.try_admit(guards, priority) {
            Some(Ok(permits)) => {
                let held = HeldPermits::new(permits, ends);
                let response = self.service.call_limited(pending, request);
                AdmissionFuture::serving(response, Some(held), self.format.clone())
            }
            Some(Err(outcome)) => {
                let response = self.format.denial(rate_limit, &outcome, request.method());
                AdmissionFuture::denied(response, self.format.clone())
            }
            None => {
                // The service that is ready goes with the request. The clone must become ready first.
                let next = self.service.clone();
                let waiting_request = (mem::replace(&mut self.service, next), request, ends);
                AdmissionFuture::waiting(pending, guards.clone(), priority, waiting_request, self.format.clone())
            }
        }
    }
}

pin_project! {
    /// The future of an [`AdmissionService`](super::AdmissionService).
    pub struct AdmissionFuture<S, F, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        state: State<RateLimitService<S, MarkedFormat<F>>, RateLimitFuture<S, MarkedFormat<F>, ReqBody, ResBody>, ReqBody, ResBody>,
        format: MarkedFormat<F>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, Fut, ReqBody, ResBody> {
        /// The request waits for the guards.
        Waiting { admission: BoxFuture<'static, AdmitResult>, waiting_request: Option<Box<(S, Request<ReqBody>, EndRules)>> },
        /// The service works on the request, which is in flight unless it was skipped.
        Serving { #[pin] response: Fut, held: Option<HeldPermits> },
        Denied { response: Option<Response<ResBody>> },
    }
}

/// A request and the result of its guards.
type AdmitResult = (PendingRequest, Result<Permits, Outcome>);

impl<S, F, ReqBody, ResBody> AdmissionFuture<S, F, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>>,
{
    pub(super) fn serving(
        response: RateLimitFuture<S, MarkedFormat<F>, ReqBody, ResBody>,
        held: Option<HeldPermits>,
        format: MarkedFormat<F>,
    ) -> Self {
        AdmissionFuture { state: State::Serving { response, held }, format }
    }

    pub(super) fn denied(response: Response<ResBody>, format: MarkedFormat<F>) -> Self {
        AdmissionFuture { state: State::Denied { response: Some(response) }, format }
    }

    pub(super) fn waiting(
        pending: PendingRequest,
        guards: ConcurrencyGuards,
        priority: Priority,
        waiting_request: (RateLimitService<S, MarkedFormat<F>>, Request<ReqBody>, EndRules),
        format: MarkedFormat<F>,
    ) -> Self {
        let admission = Box::pin(async move {
            let admission = pending.admit(&guards, priority).await;
            (pending, admission)
        });
        AdmissionFuture {
            state: State::Waiting { admission, waiting_request: Some(Box::new(waiting_request)) },
            format,
        }
    }
}

impl<S, F, ReqBody, ResBody> Future for AdmissionFuture<S, F, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    F: ResponseFormat<ResBody>,
    ResBody: Body,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Waiting { admission, waiting_request } => {
                    let (pending, admission) = ready!(admission.as_mut().poll(context));
                    let (mut service, request, ends) = *waiting_request.take().expect(POLLED_AFTER_COMPLETION);
                    match admission {
                        Ok(permits) => {
                            let response = service.call_limited(pending, request);
                            State::Serving { response, held: Some(HeldPermits::new(permits, ends)) }
                        }
                        Err(outcome) => {
                            let response = this.format.denial(pending.rate_limit(), &outcome, request.method());
                            State::Denied { response: Some(response) }
                        }
                    }
                }
                StateProjection::Serving { response, held } => {
                    let response = ready!(response.poll(context))?;
                    // The mark stays for an outer admission.
                    let denied = response.extensions().get::<IsDenied>().is_some();
                    return Poll::Ready(Ok(match held.take() {
                        Some(held) if denied => ResponseBody::guarded(response, held.ignored()),
                        Some(held) => ResponseBody::guarded(response, held),
                        None => ResponseBody::unguarded(response),
                    }));
                }
                StateProjection::Denied { response } => {
                    return Poll::Ready(Ok(ResponseBody::unguarded(response.take().expect(POLLED_AFTER_COMPLETION))));
                }
            };
            this.state.set(next);
        }
    }
}

const POLLED_AFTER_COMPLETION: &str = "polled after completion";

/// A format that marks its denials, so that an admission ignores how long a denied request took.
#[derive(Debug, Clone)]
pub struct MarkedFormat<F>(pub(super) F);

/// Marks in the extensions of a response that its request was denied, and no work was done for it.
#[derive(Clone, Copy)]
pub(super) struct IsDenied;

impl<B, F: ResponseFormat<B>> ResponseFormat<B> for MarkedFormat<F> {
    fn denial(&self, rate_limit: &RateLimit, outcome: &Outcome, method: &Method) -> Response<B> {
        let mut response = self.0.denial(rate_limit, outcome, method);
        self.on_attribute_denial(&mut response);
        response
    }

    fn write_headers(&self, rate_limit: &RateLimit, outcome: &Outcome, headers: &mut HeaderMap) {
        self.0.write_headers(rate_limit, outcome, headers);
    }

    fn on_attribute_denial(&self, response: &mut Response<B>) {
        response.extensions_mut().insert(IsDenied);
    }
}
