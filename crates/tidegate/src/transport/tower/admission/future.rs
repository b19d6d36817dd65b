//! A response in the making.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tidegate_core::BoxFuture;
use tower_service::Service;

use super::ResponseBody;
use super::marking::{IsTurnedAway, Marking};
use crate::concurrency::Priority;
use crate::enforce::{Guards, Outcome, Permits};
use crate::http::Asking;
use crate::http::in_flight::{Ends, Held};
use crate::tower as limits;
use crate::tower::{Protocol, RateLimited};

pin_project! {
    /// The response of an [`Admitting`](super::Admitting) service.
    pub struct ResponseFuture<S, P, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        state: State<RateLimited<S, Marking<P>>, limits::ResponseFuture<S, Marking<P>, ReqBody, ResBody>, ReqBody, ResBody>,
        protocol: Marking<P>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, F, ReqBody, ResBody> {
        /// The guards are waited for.
        Waiting { entered: BoxFuture<'static, Entered>, waits: Option<Box<(S, Request<ReqBody>, Ends)>> },
        /// The service works on it; in flight unless it was left alone.
        Serving { #[pin] response: F, held: Option<Held> },
        TurnedAway { response: Option<Response<ResBody>> },
    }
}

/// A request that has got in, or not.
type Entered = (Asking, Result<Permits, Outcome>);

impl<S, P, ReqBody, ResBody> ResponseFuture<S, P, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>>,
{
    pub(super) fn serving(
        response: limits::ResponseFuture<S, Marking<P>, ReqBody, ResBody>,
        held: Option<Held>,
        protocol: Marking<P>,
    ) -> Self {
        ResponseFuture { state: State::Serving { response, held }, protocol }
    }

    pub(super) fn turned_away(response: Response<ResBody>, protocol: Marking<P>) -> Self {
        ResponseFuture { state: State::TurnedAway { response: Some(response) }, protocol }
    }

    pub(super) fn waiting(
        asking: Asking,
        guards: Guards,
        priority: Priority,
        waits: (RateLimited<S, Marking<P>>, Request<ReqBody>, Ends),
        protocol: Marking<P>,
    ) -> Self {
        let entered = Box::pin(async move {
            let entered = asking.enter(&guards, priority).await;
            (asking, entered)
        });
        ResponseFuture { state: State::Waiting { entered, waits: Some(Box::new(waits)) }, protocol }
    }
}

impl<S, P, ReqBody, ResBody> Future for ResponseFuture<S, P, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    P: Protocol<ResBody>,
    ResBody: Body,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Waiting { entered, waits } => {
                    let (asking, entered) = ready!(entered.as_mut().poll(context));
                    let (mut service, request, ends) = *waits.take().expect(POLLED);
                    match entered {
                        Ok(permits) => {
                            let response = service.call_demanding(asking.demand, request);
                            State::Serving { response, held: Some(Held::new(permits, ends)) }
                        }
                        Err(outcome) => {
                            let response = this.protocol.answer(asking.rate_limit(), &outcome, request.method());
                            State::TurnedAway { response: Some(response) }
                        }
                    }
                }
                StateProjection::Serving { response, held } => {
                    let response = ready!(response.poll(context))?;
                    // The mark stays, for an admission further out.
                    let turned_away = response.extensions().get::<IsTurnedAway>().is_some();
                    return Poll::Ready(Ok(match held.take() {
                        Some(held) if turned_away => ResponseBody::guarded(response, held.ignored()),
                        Some(held) => ResponseBody::guarded(response, held),
                        None => ResponseBody::unguarded(response),
                    }));
                }
                StateProjection::TurnedAway { response } => {
                    return Poll::Ready(Ok(ResponseBody::unguarded(response.take().expect(POLLED))));
                }
            };
            this.state.set(next);
        }
    }
}

const POLLED: &str = "polled after it was done";
