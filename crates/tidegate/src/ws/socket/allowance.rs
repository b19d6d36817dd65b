//! How much is read for one message.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::Message;

/// How many bytes have been read since the last whole message. A message in fragments is only seen when it is whole, and
/// one whose fragments are empty never is: it would be read for ever.
#[derive(Clone, Default)]
pub(super) struct Allowance(Arc<AtomicUsize>);

/// The longest header of a frame that a client sends.
const HEADER: usize = 14;

impl Allowance {
    /// A message was whole. Between the fragments of another there may only be frames without one, each of which gives back
    /// what it has taken.
    pub(super) fn give_back(&self, message: &Message) {
        match message {
            Message::Text(_) | Message::Binary(_) => self.0.store(0, Ordering::Relaxed),
            other => {
                let taken = other.len() + HEADER;
                let _ =
                    self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |read| Some(read.saturating_sub(taken)));
            }
        }
    }

    /// A connection of which no more than so much is read for a message of `longest` bytes: each byte in a fragment of its
    /// own, and what is read ahead.
    pub(super) fn of<S>(stream: S, longest: usize) -> (Self, Counted<S>) {
        let most = longest.saturating_mul(HEADER + 1).saturating_add(64 * 1024);
        let read = Allowance::default();
        (read.clone(), Counted { stream, read, most })
    }
}

/// A connection whose bytes are counted.
pub(super) struct Counted<S> {
    stream: S,
    read: Allowance,
    most: usize,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        let new = into.filled().len() - before;
        let read = self.read.0.fetch_add(new, Ordering::Relaxed).saturating_add(new);
        Poll::Ready(if read > self.most { Err(io::Error::other("too much for one message")) } else { Ok(()) })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
