//! Bodies that count their bytes in the [`BufferBudget`](super::buffer_budget::BufferBudget) for as long as these are in memory.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tidegate::api::MAX_BATCH_BODY_BYTES;

use super::body::ResponseBody;
use super::buffer_budget::BufferCharge;

/// The most bytes that are kept of a body. More is read only to drop it.
const MAX_KEPT: usize = 2 * MAX_BATCH_BODY_BYTES;

/// The body of a request. Its bytes are counted until the response is sent; it fails when there is no room for more.
pub(crate) struct ChargedRequestBody {
    body: Incoming,
    charge: BufferCharge,
    counted: usize,
}

impl ChargedRequestBody {
    pub(super) fn new(body: Incoming, charge: BufferCharge) -> Self {
        ChargedRequestBody { body, charge, counted: 0 }
    }
}

impl Body for ChargedRequestBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)?) else { return Poll::Ready(None) };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        self.charge.note_body(bytes);
        let more = bytes.min(MAX_KEPT - self.counted);
        if !self.charge.try_grow(more) {
            // The rest may still be read, and is dropped at once.
            self.charge.shrink(self.counted);
            self.counted = MAX_KEPT;
            return Poll::Ready(Some(Err(NoRoom.into())));
        }
        self.counted += more;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The budget has no room for the body of a request.
#[derive(Debug)]
pub(super) struct NoRoom;

impl NoRoom {
    /// Whether this is the cause of an error.
    pub(super) fn caused(error: &(dyn Error + 'static)) -> bool {
        error.is::<NoRoom>() || error.source().is_some_and(NoRoom::caused)
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many bytes wait in the server")
    }
}

impl Error for NoRoom {}

/// The body of a response. Its request is counted until its last piece is sent.
pub(crate) struct ChargedResponseBody {
    body: ResponseBody,
    /// `None` for a response that there was no room to count.
    charge: Option<BufferCharge>,
}

impl ChargedResponseBody {
    pub(super) fn new(body: ResponseBody, charge: Option<BufferCharge>) -> Self {
        ChargedResponseBody { body, charge }
    }
}

impl Body for ChargedResponseBody {
    type Data = ChargedBytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<ChargedBytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context)?);
        Poll::Ready(frame.map(|frame| Ok(frame.map_data(|bytes| ChargedBytes { bytes, _charge: self.charge.clone() }))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A piece of a response on its way to the client.
pub(crate) struct ChargedBytes {
    bytes: Bytes,
    /// Dropped with the piece.
    _charge: Option<BufferCharge>,
}

impl Buf for ChargedBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}
