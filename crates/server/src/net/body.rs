//! HTTP bodies: requests, read within a size and a time, and responses, sent in bounded pieces.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body as RoutedBody;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::charged_body::NoRoom;
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
pub(super) const MAX_PIECE: usize = 16 << 10;

impl ResponseBody {
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        ResponseBody::Full { bytes: Some(bytes.into()), trailers: None }
    }

    pub(crate) fn routed(body: RoutedBody) -> Self {
        ResponseBody::Routed { body, rest: None }
    }

    /// Returns how many bytes it keeps until the client has read it.
    pub(super) fn buffered_bytes(&self) -> usize {
        match self {
            ResponseBody::Full { bytes, .. } => bytes.as_ref().map_or(0, Bytes::len),
            // The pieces of a stream are made as they are sent.
            ResponseBody::Routed { body, .. } => body.size_hint().exact().map_or(MAX_PIECE, |bytes| bytes as usize),
        }
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

/// How much of a refused body is read and dropped, and for how long.
const MAX_DISCARDED_BYTES: usize = 16 << 20;
pub(super) const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// The body of a request.
pub(crate) trait RequestBody:
    Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

impl<B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static> RequestBody for B {}

/// Why the body of a request cannot be read.
#[derive(Debug)]
pub(crate) enum BodyError {
    TooLarge,
    TooSlow,
    /// Too many bytes wait in the process.
    NoRoom,
    Broken(Box<dyn Error + Send + Sync>),
}

/// Reads the body of a request, within a size and a time.
pub(crate) async fn read_body(mut body: impl RequestBody, max_bytes: usize) -> Result<Bytes, BodyError> {
    match with_timeout(BODY_TIMEOUT, read_up_to(max_bytes, &mut body)).await {
        Ok(Err(refused @ (BodyError::TooLarge | BodyError::NoRoom))) => {
            discard(body);
            Err(refused)
        }
        Ok(read) => read,
        Err(_) => Err(BodyError::TooSlow),
    }
}

/// A body nearly always comes in one piece, which is not copied. Several pieces are joined as they arrive: kept apart, pieces
/// of one byte would take forty times their size, and each would keep the buffer that it was read into.
async fn read_up_to(max_bytes: usize, body: &mut impl RequestBody) -> Result<Bytes, BodyError> {
    // Before the first read, which would ask a client with `Expect: 100-continue` to send.
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(BodyError::TooLarge);
    }
    let mut joined = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|error| body_error(error.into()))?.into_data() else { continue };
        if joined.len() + piece.len() > max_bytes {
            return Err(BodyError::TooLarge);
        }
        if joined.is_empty() && body.is_end_stream() {
            return Ok(piece);
        }
        joined.extend_from_slice(&piece);
    }
    Ok(joined.into())
}

fn body_error(error: Box<dyn Error + Send + Sync>) -> BodyError {
    if NoRoom::caused(&*error) { BodyError::NoRoom } else { BodyError::Broken(error) }
}

/// Reads the rest of a refused body in a task of its own, within bounds. A connection that closes before is reset, and then a
/// client that is still sending may never read the refusal.
fn discard(mut body: impl RequestBody) {
    tokio::spawn(timeout(DISCARD_TIMEOUT, async move {
        let mut discarded = 0;
        while discarded <= MAX_DISCARDED_BYTES
            && let Some(Ok(frame)) = body.frame().await
        {
            discarded += frame.data_ref().map_or(0, Bytes::len);
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::{StreamExt, stream};
    use http_body_util::Full;

    use super::*;

    /// A body without end, in pieces of a KiB, and the number of bytes that were read of it.
    fn endless_body() -> (RoutedBody, Arc<AtomicUsize>) {
        let read = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&read);
        let pieces = stream::repeat(Bytes::from_static(&[0; 1 << 10])).map(move |piece| {
            counter.fetch_add(piece.len(), Ordering::Relaxed);
            Ok::<_, Infallible>(piece)
        });
        (RoutedBody::from_stream(pieces), read)
    }

    #[tokio::test]
    async fn body_is_read_up_to_its_bound() {
        for size in [0, 1, 64] {
            let read = read_body(Full::new(Bytes::from(vec![7; size])), 64).await.expect("within the bound");
            assert_eq!(read, vec![7; size]);
            let pieces = stream::iter((0..size).map(|_| Ok::<_, Infallible>(Bytes::from_static(&[7]))));
            assert_eq!(read_body(RoutedBody::from_stream(pieces), 64).await.expect("within the bound"), vec![7; size]);
        }
        assert!(matches!(read_body(Full::new(Bytes::from(vec![7; 65])), 64).await, Err(BodyError::TooLarge)));
        assert!(matches!(read_body(endless_body().0, 64).await, Err(BodyError::TooLarge)));
    }

    #[tokio::test(start_paused = true)]
    async fn rest_of_a_refused_body_is_discarded_within_bounds() {
        let (body, read) = endless_body();
        assert!(matches!(read_body(body, 64).await, Err(BodyError::TooLarge)));
        let mut before = 0;
        while read.load(Ordering::Relaxed) > before {
            before = read.load(Ordering::Relaxed);
            tokio::time::sleep(DISCARD_TIMEOUT).await;
        }
        assert!((MAX_DISCARDED_BYTES..MAX_DISCARDED_BYTES + (4 << 10)).contains(&before), "{before}");
    }
}
