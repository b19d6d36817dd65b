//! The layer that enforces limits, its service, and the future of a response.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tidegate_core::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use super::request_state::{DecidedRequest, RequestState, write_headers};
use super::{HttpFormat, ResponseFormat};
use crate::http::{PendingRequest, RateLimit, RequestHead};

/// A layer that puts limits in front of a service. See the [module](super) for examples.
#[derive(Debug, Clone)]
pub struct RateLimitLayer<F = HttpFormat> {
    rate_limit: RateLimit,
    format: F,
}

impl RateLimitLayer {
    /// Enforces the limits of an [`Enforcer`](crate::enforce::Enforcer) (`limiter.enforcer("api")?`), a bare quota, or a
    /// [`RateLimit`].
    ///
    /// The response to a denied request has a body of the service's type, which must be convertible from text: axum's,
    /// `Full<Bytes>`, lambda_http's. For others, put
    /// `tower_http::map_response_body::MapResponseBodyLayer::new(axum::body::Body::new)` below this layer.
    pub fn new(limits: impl Into<RateLimit>) -> Self {
        RateLimitLayer { rate_limit: limits.into(), format: HttpFormat }
    }
}

impl<F> RateLimitLayer<F> {
    /// Answers denied requests in another format, such as gRPC's.
    pub fn with_format<G>(self, format: G) -> RateLimitLayer<G> {
        RateLimitLayer { rate_limit: self.rate_limit, format }
    }
}

impl<S, F: Clone> Layer<S> for RateLimitLayer<F> {
    type Service = RateLimitService<S, F>;

    fn layer(&self, service: S) -> RateLimitService<S, F> {
        RateLimitService::new(service, self.rate_limit.clone(), self.format.clone())
    }
}

/// A service with limits in front of it, from a [`RateLimitLayer`]. Clones share their limits.
#[derive(Debug, Clone)]
pub struct RateLimitService<S, F> {
    service: S,
    rate_limit: RateLimit,
    format: F,
}

impl<S, F> RateLimitService<S, F> {
    pub(super) fn new(service: S, rate_limit: RateLimit, format: F) -> Self {
        RateLimitService { service, rate_limit, format }
    }
}

impl<S, F, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimitService<S, F>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    F: ResponseFormat<ResBody>,
{
    type Response = Response<ResBody>;
    type Error = S::Error;
    type Future = RateLimitFuture<S, F, ReqBody, ResBody>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // Also for a request that will be denied. That is not known yet, and a service that is not ready must not be
        // called.
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        match self.rate_limit.begin(&RequestHead::from_request(&request)) {
            Some(pending) => self.call_limited(pending, request),
            None => self.call_skipped(request),
        }
    }
}

impl<S, F> RateLimitService<S, F> {
    /// Calls the service with a request that no limit applies to.
    pub(super) fn call_skipped<ReqBody, ResBody>(
        &mut self,
        request: Request<ReqBody>,
    ) -> RateLimitFuture<S, F, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
        F: ResponseFormat<ResBody>,
    {
        let state = RequestState::skipped(&self.rate_limit, &RequestHead::from_request(&request));
        RateLimitFuture::serving(self.service.call(request), state, self.format.clone())
    }

    /// Applies the limits of a request, and calls the service if they admit it.
    pub(super) fn call_limited<ReqBody, ResBody>(
        &mut self,
        pending: PendingRequest,
        mut request: Request<ReqBody>,
    ) -> RateLimitFuture<S, F, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
        F: ResponseFormat<ResBody>,
    {
        let format = self.format.clone();
        match pending.try_decide() {
            Some(outcome) if outcome.is_allowed() => {
                pending.insert_outcome(&outcome, request.extensions_mut());
                RateLimitFuture::serving(self.service.call(request), RequestState::Admitted(pending, outcome), format)
            }
            Some(outcome) => {
                RateLimitFuture::denied(format.denial(&self.rate_limit, &outcome, request.method()), format)
            }
            None => {
                // The service that is ready goes with the request. The clone must become ready first.
                let next = self.service.clone();
                RateLimitFuture::waiting(pending, mem::replace(&mut self.service, next), request, format)
            }
        }
    }
}

pin_project! {
    /// The future of a [`RateLimitService`]'s response. With a store in process it allocates nothing.
    pub struct RateLimitFuture<S, F, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        // The future of the service, while it works.
        #[pin]
        response: Option<S::Future>,
        stage: Stage<S, ReqBody, ResBody>,
        format: F,
    }
}

/// The stages of a request.
enum Stage<S, ReqBody, ResBody> {
    /// The limits decide. The waiting request is boxed, so that the future of other requests is small.
    Waiting(BoxFuture<'static, DecidedRequest>, Option<Box<(S, Request<ReqBody>)>>),
    /// The request was admitted or skipped, and the service works on it.
    Serving(RequestState),
    /// The response is known, and its request is being charged.
    Charging(BoxFuture<'static, DecidedRequest>, Option<Response<ResBody>>),
    Denied(Option<Response<ResBody>>),
}

impl<S, F, ReqBody, ResBody> RateLimitFuture<S, F, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>>,
{
    fn serving(response: S::Future, state: RequestState, format: F) -> Self {
        RateLimitFuture { response: Some(response), stage: Stage::Serving(state), format }
    }

    fn denied(response: Response<ResBody>, format: F) -> Self {
        RateLimitFuture { response: None, stage: Stage::Denied(Some(response)), format }
    }

    fn waiting(pending: PendingRequest, service: S, request: Request<ReqBody>, format: F) -> Self {
        let decided = Box::pin(async move {
            let outcome = pending.decide().await;
            (pending, outcome)
        });
        RateLimitFuture { response: None, stage: Stage::Waiting(decided, Some(Box::new((service, request)))), format }
    }
}

impl<S, F, ReqBody, ResBody> Future for RateLimitFuture<S, F, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    F: ResponseFormat<ResBody>,
{
    type Output = Result<Response<ResBody>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.stage {
                Stage::Waiting(decided, waiting) => {
                    let (pending, outcome) = ready!(decided.as_mut().poll(context));
                    let (mut service, mut request) = *waiting.take().expect(POLLED_AFTER_COMPLETION);
                    *this.stage = if outcome.is_allowed() {
                        pending.insert_outcome(&outcome, request.extensions_mut());
                        this.response.set(Some(service.call(request)));
                        Stage::Serving(RequestState::Admitted(pending, outcome))
                    } else {
                        let response = this.format.denial(pending.rate_limit(), &outcome, request.method());
                        Stage::Denied(Some(response))
                    };
                }
                Stage::Serving(state) => {
                    let mut response = ready!(
                        state.poll(this.response.as_mut().as_pin_mut().expect(POLLED_AFTER_COMPLETION), context)
                    )?;
                    if state.finish(this.format, &mut response) {
                        return Poll::Ready(Ok(response));
                    }
                    *this.stage = Stage::Charging(state.charge(), Some(response));
                    this.response.set(None);
                }
                Stage::Charging(charged, response) => {
                    let (pending, outcome) = ready!(charged.as_mut().poll(context));
                    let mut response = response.take().expect(POLLED_AFTER_COMPLETION);
                    write_headers(this.format, pending.rate_limit(), &outcome, &mut response);
                    return Poll::Ready(Ok(response));
                }
                Stage::Denied(response) => return Poll::Ready(Ok(response.take().expect(POLLED_AFTER_COMPLETION))),
            }
        }
    }
}

const POLLED_AFTER_COMPLETION: &str = "polled after completion";
