//! The body of an answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body as Routed;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

/// The body of an answer: what is answered most stands here as it is, and the rest comes from a router.
pub(crate) enum Answer {
    /// All of it, and what may follow it.
    Whole {
        /// None once it was handed over.
        bytes: Option<Bytes>,
        trailers: Option<HeaderMap>,
    },
    Routed(Routed),
}

impl Answer {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Answer::Whole { bytes: Some(bytes.into()), trailers: None }
    }

    pub(crate) fn with_trailers(bytes: impl Into<Bytes>, trailers: HeaderMap) -> Self {
        Answer::Whole { bytes: Some(bytes.into()), trailers: Some(trailers) }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.get_mut() {
            Answer::Whole { bytes, trailers } => {
                let data = bytes.take().map(Frame::data);
                Poll::Ready(data.or_else(|| trailers.take().map(Frame::trailers)).map(Ok))
            }
            Answer::Routed(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Whole { bytes, trailers } => bytes.is_none() && trailers.is_none(),
            Answer::Routed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole { bytes, trailers: None } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            // A length that is known would be told, which gRPC's answers do not do.
            Answer::Whole { .. } => SizeHint::default(),
            Answer::Routed(body) => body.size_hint(),
        }
    }
}
