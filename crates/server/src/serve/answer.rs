//! The body of an answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body as Routed;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::sending;

/// The body of an answer: what is answered most stands here as it is, and the rest comes from a router.
pub(crate) enum Answer {
    /// All of it, and what may follow it.
    Whole {
        /// None once it was handed over.
        bytes: Option<Bytes>,
        trailers: Option<HeaderMap>,
    },
    Routed {
        body: Routed,
        /// What is left of a piece that was too large.
        rest: Option<Bytes>,
    },
}

/// How much of a body is handed over at once, at most: a server keeps what it has been given, whether or not there is room for it.
const PIECE: usize = 16 << 10;

impl Answer {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Answer::Whole { bytes: Some(bytes.into()), trailers: None }
    }

    pub(crate) fn routed(body: Routed) -> Self {
        Answer::Routed { body, rest: None }
    }

    pub(crate) fn with_trailers(bytes: impl Into<Bytes>, trailers: HeaderMap) -> Self {
        Answer::Whole { bytes: Some(bytes.into()), trailers: Some(trailers) }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        sending::note(self.get_mut().next(context))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Whole { bytes, trailers } => bytes.is_none() && trailers.is_none(),
            Answer::Routed { body, rest } => rest.is_none() && body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole { bytes, trailers: None } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            // A length that is known would be told, which gRPC's answers do not do.
            Answer::Whole { .. } => SizeHint::default(),
            Answer::Routed { body, rest: None } => body.size_hint(),
            Answer::Routed { .. } => SizeHint::default(),
        }
    }
}

impl Answer {
    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self {
            Answer::Whole { bytes, trailers } => {
                let piece = bytes.take().map(|whole| Frame::data(first(whole, bytes)));
                Poll::Ready(piece.or_else(|| trailers.take().map(Frame::trailers)).map(Ok))
            }
            Answer::Routed { body, rest } => {
                if let Some(whole) = rest.take() {
                    return Poll::Ready(Some(Ok(Frame::data(first(whole, rest)))));
                }
                let frame = ready!(Pin::new(body).poll_frame(context));
                Poll::Ready(frame.map(|frame| {
                    frame.map(|frame| match frame.into_data() {
                        Ok(whole) => Frame::data(first(whole, rest)),
                        Err(frame) => frame,
                    })
                }))
            }
        }
    }
}

/// The first piece; what is left of it goes to `rest`.
fn first(mut whole: Bytes, rest: &mut Option<Bytes>) -> Bytes {
    if whole.len() <= PIECE {
        return whole;
    }
    let piece = whole.split_to(PIECE);
    *rest = Some(whole);
    piece
}
