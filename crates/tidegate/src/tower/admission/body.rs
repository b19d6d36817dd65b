//! The body of a response, which is in flight until it ends.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::http::InFlight;
use crate::http::lifecycle::HeldPermits;

pin_project! {
    /// The body of a response of an [`AdmissionService`](super::AdmissionService), or behind a
    /// [`Gate`](crate::http::Gate). The request is in flight until the body ends.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        body: B,
        in_flight: InFlight,
    }
}

impl<B: Body> ResponseBody<B> {
    /// Returns a response with no request in flight.
    pub(super) fn unguarded(response: Response<B>) -> Response<Self> {
        response.map(|body| ResponseBody { body, in_flight: InFlight::default() })
    }

    /// Returns a response that is in flight until its body ends.
    pub(super) fn guarded(response: Response<B>, held: HeldPermits) -> Response<Self> {
        let length = response.body().size_hint().exact();
        let in_flight = InFlight::begin(Some(held), response.status(), response.headers(), length);
        response.map(|body| ResponseBody::new(body, in_flight))
    }

    /// Creates a body whose request is in flight until it ends.
    pub fn new(body: B, mut in_flight: InFlight) -> Self {
        if body.is_end_stream() {
            in_flight.end();
        }
        ResponseBody { body, in_flight }
    }
}

impl<B: Body> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        if this.in_flight.is_over() {
            return Poll::Ready(frame);
        }
        match &frame {
            None => this.in_flight.end(),
            // The body will not be polled again, not even after trailers.
            Some(Ok(frame)) if frame.is_trailers() || this.body.is_end_stream() => this.in_flight.end(),
            Some(Ok(frame)) => this.in_flight.record_chunk(frame.data_ref().map_or(0, |data| data.remaining() as u64)),
            Some(Err(_)) => this.in_flight.fail(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
