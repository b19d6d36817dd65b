//! HTTP bodies: requests, read within a size and a time, and responses, sent in bounded pieces.

use std::error::Error;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body as RoutedBody;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::stall_guard;
use super::timeout_stream::with_timeout;

/// The body of a response: whole for the fast path, streamed from a router for all others.
pub(crate) enum ResponseBody {
    /// The whole body.
    Full {
        /// `None` once it is sent.
        bytes: Option<Bytes>,
        trailers: Option<HeaderMap>,
    },
    Routed {
        body: RoutedBody,
        /// The rest of a piece that was too large.
        rest: Option<Bytes>,
    },
}

/// How much of a body is handed to the connection at once: it buffers all it gets, whether or not the client reads.
const MAX_PIECE: usize = 16 << 10;

impl ResponseBody {
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        ResponseBody::Full { bytes: Some(bytes.into()), trailers: None }
    }

    pub(crate) fn routed(body: RoutedBody) -> Self {
        ResponseBody::Routed { body, rest: None }
    }

    pub(crate) fn with_trailers(bytes: impl Into<Bytes>, trailers: HeaderMap) -> Self {
        ResponseBody::Full { bytes: Some(bytes.into()), trailers: Some(trailers) }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        stall_guard::note(self.get_mut().next(context))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Full { bytes, trailers } => bytes.is_none() && trailers.is_none(),
            ResponseBody::Routed { body, rest } => rest.is_none() && body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Full { bytes, trailers: None } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            // A known length would become a header, which gRPC responses do not have.
            ResponseBody::Full { .. } => SizeHint::default(),
            ResponseBody::Routed { body, rest: None } => body.size_hint(),
            ResponseBody::Routed { .. } => SizeHint::default(),
        }
    }
}

impl ResponseBody {
    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self {
            ResponseBody::Full { bytes, trailers } => {
                let piece = bytes.take().map(|whole| Frame::data(first_piece(whole, bytes)));
                Poll::Ready(piece.or_else(|| trailers.take().map(Frame::trailers)).map(Ok))
            }
            ResponseBody::Routed { body, rest } => {
                if let Some(whole) = rest.take() {
                    return Poll::Ready(Some(Ok(Frame::data(first_piece(whole, rest)))));
                }
                let frame = ready!(Pin::new(body).poll_frame(context));
                Poll::Ready(frame.map(|frame| {
                    frame.map(|frame| match frame.into_data() {
                        Ok(whole) => Frame::data(first_piece(whole, rest)),
                        Err(frame) => frame,
                    })
                }))
            }
        }
    }
}

/// Splits off the first piece; the rest goes to `rest`.
fn first_piece(mut whole: Bytes, rest: &mut Option<Bytes>) -> Bytes {
    if whole.len() <= MAX_PIECE {
        return whole;
    }
    let piece = whole.split_to(MAX_PIECE);
    *rest = Some(whole);
    piece
}

/// How long a client may take to send the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the body of a request cannot be read.
pub(crate) enum BodyError {
    TooLarge,
    TooSlow,
    Broken(Box<dyn Error + Send + Sync>),
}

/// Reads the body of a request, within a size and a time.
///
/// A body nearly always comes in one piece, which is not copied. Several pieces are joined as they arrive: kept apart, pieces
/// of one byte would take forty times their size.
pub(crate) async fn read_body<B>(body: B, max_bytes: usize) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let mut body = pin!(Limited::new(body, max_bytes));
    let whole = async {
        let (mut first, mut joined) = (Bytes::new(), Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame?.into_data() else { continue };
            if first.is_empty() {
                first = piece;
                continue;
            }
            if joined.is_empty() {
                joined.extend_from_slice(&first);
            }
            joined.extend_from_slice(&piece);
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(if joined.is_empty() { first } else { joined.into() })
    };
    match with_timeout(BODY_TIMEOUT, whole).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge),
        Ok(Err(error)) => Err(BodyError::Broken(error)),
        Err(_) => Err(BodyError::TooSlow),
    }
}
