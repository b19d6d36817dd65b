//! A response in the making.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tidegate_core::BoxFuture;
use tower_service::Service;

use super::Protocol;
use super::admitted::{Admitted, Decided, tell};
use crate::http::Asking;
use crate::http::headers::Told;

pin_project! {
    /// The response of a [`RateLimited`](super::RateLimited) service. With a store in process it is the service's own
    /// future and nothing is allocated for it.
    // One level of fields: with a whole in a whole, a request's would be copied for each when they are put together.
    pub struct ResponseFuture<S, P, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        // What the service works on, while it does.
        #[pin]
        response: Option<S::Future>,
        stage: Stage<S, ReqBody, ResBody>,
        protocol: P,
    }
}

/// How far a request has come.
enum Stage<S, ReqBody, ResBody> {
    /// The limits are asked. The request waits on the heap, so that one that need not wait is quicker to move.
    Waiting(BoxFuture<'static, Decided>, Option<Box<(S, Request<ReqBody>)>>),
    /// The request was admitted, or left alone, and the service works on it.
    Serving(Admitted),
    /// The response is known, and charged for.
    Charging(BoxFuture<'static, Decided>, Option<Response<ResBody>>),
    TurnedAway(Option<Response<ResBody>>),
}

impl<S, P, ReqBody, ResBody> ResponseFuture<S, P, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>>,
{
    /// Lets the service work on a request that was admitted, of which this is to be said, if anything is.
    // The service's future is large. It is made where it stays, and not copied, only if nothing has to be dropped when making it
    // panics; so what is to be said is not, and leaks then.
    #[inline]
    pub(super) fn told(service: &mut S, request: Request<ReqBody>, told: Option<Told>, protocol: &P) -> Self
    where
        P: Clone,
    {
        let told = ManuallyDrop::new(told);
        let response = service.call(request);
        let stage = Stage::Serving(Admitted::Told(ManuallyDrop::into_inner(told)));
        ResponseFuture { response: Some(response), stage, protocol: protocol.clone() }
    }

    #[inline]
    pub(super) fn serving(response: S::Future, admitted: Admitted, protocol: P) -> Self {
        ResponseFuture { response: Some(response), stage: Stage::Serving(admitted), protocol }
    }

    pub(super) fn turned_away(response: Response<ResBody>, protocol: P) -> Self {
        ResponseFuture { response: None, stage: Stage::TurnedAway(Some(response)), protocol }
    }

    pub(super) fn waiting(asking: Asking, service: S, request: Request<ReqBody>, protocol: P) -> Self {
        let decided = Box::pin(async move {
            let outcome = asking.decide().await;
            (asking, outcome)
        });
        let stage = Stage::Waiting(decided, Some(Box::new((service, request))));
        ResponseFuture { response: None, stage, protocol }
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
        loop {
            match this.stage {
                Stage::Waiting(decided, waits) => {
                    let (asking, outcome) = ready!(decided.as_mut().poll(context));
                    let (mut service, mut request) = *waits.take().expect(POLLED);
                    *this.stage = if outcome.is_allowed() {
                        asking.tell_handler(&outcome, request.extensions_mut());
                        this.response.set(Some(service.call(request)));
                        Stage::Serving(Admitted::by_layer(&asking.rate_limit, asking.demand, outcome, P::TELLS))
                    } else {
                        let response = this.protocol.answer(asking.rate_limit(), &outcome, request.method());
                        Stage::TurnedAway(Some(response))
                    };
                }
                Stage::Serving(admitted) => {
                    // The response is changed where it is, and seldom moved: it is large.
                    let mut polled = admitted.poll(this.response.as_mut().as_pin_mut().expect(POLLED), context);
                    let Poll::Ready(Ok(response)) = &mut polled else { return polled };
                    if admitted.conclude(this.protocol, response) {
                        return polled;
                    }
                    *this.stage = Stage::Charging(admitted.charge(), ready!(polled).ok());
                    this.response.set(None);
                }
                Stage::Charging(charged, response) => {
                    let (asking, outcome) = ready!(charged.as_mut().poll(context));
                    let mut response = response.take().expect(POLLED);
                    tell(this.protocol, asking.rate_limit(), &outcome, &mut response);
                    return Poll::Ready(Ok(response));
                }
                Stage::TurnedAway(response) => return Poll::Ready(Ok(response.take().expect(POLLED))),
            }
        }
    }
}

const POLLED: &str = "polled after it was done";
