//! The body of a response, which is in flight until it ends.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::held::Held;
use crate::concurrency::Work;

pin_project! {
    /// The body of a response of an [`Admitting`](super::Admitting) service: the request is in flight until it ends.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        body: B,
        in_flight: Option<InFlight>,
    }
}

/// A request whose response is under way.
struct InFlight {
    held: Held,
    /// What the work was if the body comes to its end.
    work: Work,
    /// How much of the body is to come, where its head says that: a server stops there and does not ask for more.
    left: Option<u64>,
}

impl<B: Body> ResponseBody<B> {
    /// A response that nothing is in flight for.
    pub(super) fn unguarded(response: Response<B>) -> Response<Self> {
        response.map(|body| ResponseBody { body, in_flight: None })
    }

    /// A response that is in flight until its body ends.
    pub(super) fn guarded(response: Response<B>, held: Held) -> Response<Self> {
        let status = response.status();
        let work = held.ends().work(status);
        // Told in the head, or by the server to itself.
        let left = content_length(response.headers()).or(response.body().size_hint().exact());
        if held.ends().at_head(status) || response.body().is_end_stream() || left == Some(0) {
            held.end(work);
            return Self::unguarded(response);
        }
        response.map(|body| ResponseBody { body, in_flight: Some(InFlight { held, work, left }) })
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl<B: Body> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        if let Some(in_flight) = this.in_flight.as_mut() {
            let has_ended = match &frame {
                None => true,
                // Nobody will ask for more, not even after trailers.
                Some(Ok(frame)) => in_flight.hand_over(frame) || frame.is_trailers() || this.body.is_end_stream(),
                Some(Err(_)) => {
                    *this.in_flight = None;
                    false
                }
            };
            if has_ended && let Some(InFlight { held, work, .. }) = this.in_flight.take() {
                held.end(work);
            }
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

impl InFlight {
    /// Counts a frame. Says whether it was the last that the head has promised.
    fn hand_over<D: Buf>(&mut self, frame: &Frame<D>) -> bool {
        let (Some(left), Some(data)) = (&mut self.left, frame.data_ref()) else { return false };
        *left = left.saturating_sub(data.remaining() as u64);
        *left == 0
    }
}

impl std::fmt::Debug for InFlight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFlight").field("work", &self.work).field("left", &self.left).finish_non_exhaustive()
    }
}
