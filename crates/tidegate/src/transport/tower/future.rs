//! A response in the making.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tidegate_core::BoxFuture;
use tower_service::Service;

use super::Protocol;
use super::admitted::{Admitted, Decided, tell};
use crate::http::Asking;

pin_project! {
    /// The response of a [`RateLimited`](super::RateLimited) service. With a store in process it is the service's own
    /// future and nothing is allocated for it.
    pub struct ResponseFuture<S, P, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        state: State<S, S::Future, ReqBody, ResBody>,
        protocol: P,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, F, ReqBody, ResBody> {
        /// The limits are asked. The request waits on the heap, so that one that need not wait is quicker to move.
        Waiting { decided: BoxFuture<'static, Decided>, waits: Option<Box<(S, Request<ReqBody>)>> },
        /// The request was admitted, or left alone.
        Serving { #[pin] response: F, admitted: Admitted },
        /// The response is known, and charged for.
        Charging { charged: BoxFuture<'static, Decided>, response: Option<Response<ResBody>> },
        TurnedAway { response: Option<Response<ResBody>> },
    }
}

impl<S, P, ReqBody, ResBody> ResponseFuture<S, P, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>>,
{
    pub(super) fn serving(response: S::Future, admitted: Admitted, protocol: P) -> Self {
        ResponseFuture { state: State::Serving { response, admitted }, protocol }
    }

    pub(super) fn turned_away(response: Response<ResBody>, protocol: P) -> Self {
        ResponseFuture { state: State::TurnedAway { response: Some(response) }, protocol }
    }

    pub(super) fn waiting(asking: Asking, service: S, request: Request<ReqBody>, protocol: P) -> Self {
        let decided = Box::pin(async move {
            let outcome = asking.decide().await;
            (asking, outcome)
        });
        ResponseFuture { state: State::Waiting { decided, waits: Some(Box::new((service, request))) }, protocol }
    }
}

impl<S, P, ReqBody, ResBody> Future for ResponseFuture<S, P, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    P: Protocol<ResBody>,
{
    type Output = Result<Response<ResBody>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let protocol = this.protocol;
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Waiting { decided, waits } => {
                    let (asking, outcome) = ready!(decided.as_mut().poll(context));
                    let (mut service, mut request) = *waits.take().expect(POLLED);
                    if outcome.is_allowed() {
                        asking.tell_handler(&outcome, request.extensions_mut());
                        State::Serving {
                            response: service.call(request),
                            admitted: Admitted::by_layer(&asking.rate_limit, asking.demand, outcome),
                        }
                    } else {
                        State::TurnedAway { response: Some(protocol.answer(asking.rate_limit(), &outcome)) }
                    }
                }
                StateProjection::Serving { response, admitted } => {
                    let mut response = ready!(admitted.poll(response, context))?;
                    if admitted.conclude(protocol, &mut response) {
                        return Poll::Ready(Ok(response));
                    }
                    State::Charging { charged: admitted.charge(), response: Some(response) }
                }
                StateProjection::Charging { charged, response } => {
                    let (asking, outcome) = ready!(charged.as_mut().poll(context));
                    let mut response = response.take().expect(POLLED);
                    tell(protocol, asking.rate_limit(), &outcome, &mut response);
                    return Poll::Ready(Ok(response));
                }
                StateProjection::TurnedAway { response } => {
                    return Poll::Ready(Ok(response.take().expect(POLLED)));
                }
            };
            this.state.set(next);
        }
    }
}

const POLLED: &str = "polled after it was done";
