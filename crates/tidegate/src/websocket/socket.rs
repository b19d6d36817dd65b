//! A WebSocket as a stream and sink of whole messages, with a bound on bytes read per message.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as TungsteniteError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// A WebSocket of whole messages.
pub(super) struct MessageSocket<S> {
    pub(super) stream: WebSocketStream<S>,
    /// `None` for a socket whose bytes are not metered.
    pub(super) read_budget: Option<ReadBudget>,
}

/// A frame or whole message from the peer.
pub(super) enum InboundFrame {
    Text(Utf8Bytes),
    /// The size of a binary message, which is never valid.
    Binary(usize),
    /// The socket answers it by itself.
    Ping,
    Pong,
    /// A close frame.
    Close(Option<(u16, String)>),
}

/// A frame or whole message to the peer.
pub(super) enum OutboundFrame {
    Text(Bytes),
    Ping,
    Close(u16, String),
}

impl OutboundFrame {
    /// A close frame. The reason is cut to the 123 bytes there is room for. A code that may not be sent becomes 1011,
    /// internal error.
    pub(super) fn close(code: u16, reason: &str) -> Self {
        let end = (0..=reason.len().min(123)).rev().find(|&end| reason.is_char_boundary(end));
        let may_be_sent = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
        OutboundFrame::Close(if may_be_sent { code } else { 1011 }, reason[..end.unwrap_or(0)].to_owned())
    }
}

/// Why a socket is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketError {
    /// A message is larger than the socket takes.
    TooBig { observed: usize },
    /// Text is not UTF-8.
    NotText,
    /// The peer violated the protocol.
    Protocol,
    /// The peer left.
    Disconnected,
}

/// Returns the configuration of a socket with this maximum message size.
pub(super) fn socket_config(max_bytes: usize) -> WebSocketConfig {
    // The default of 128 KiB would cost too much with many connections.
    const BUFFER: usize = 16 * 1024;
    let config = WebSocketConfig::default().max_message_size(Some(max_bytes)).max_frame_size(Some(max_bytes));
    config.read_buffer_size(BUFFER).write_buffer_size(BUFFER)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for MessageSocket<S> {
    type Item = Result<InboundFrame, SocketError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let message = match ready!(self.stream.poll_next_unpin(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(socket_error(&error)))),
                Some(Ok(message)) => message,
            };
            if let Some(read_budget) = &self.read_budget {
                read_budget.credit(&message);
            }
            return Poll::Ready(Some(Ok(match message {
                Message::Text(text) => InboundFrame::Text(text),
                Message::Binary(bytes) => InboundFrame::Binary(bytes.len()),
                Message::Ping(_) => InboundFrame::Ping,
                Message::Pong(_) => InboundFrame::Pong,
                Message::Close(frame) => {
                    InboundFrame::Close(frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned())))
                }
                // Only written, never read.
                Message::Frame(_) => continue,
            })));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<OutboundFrame> for MessageSocket<S> {
    type Error = SocketError;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        self.stream.poll_ready_unpin(context).map_err(|error| socket_error(&error))
    }

    fn start_send(mut self: Pin<&mut Self>, sent: OutboundFrame) -> Result<(), SocketError> {
        let message = match sent {
            OutboundFrame::Text(text) => Message::Text(text.try_into().map_err(|_| SocketError::NotText)?),
            OutboundFrame::Ping => Message::Ping(Bytes::new()),
            OutboundFrame::Close(code, reason) => {
                Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))
            }
        };
        self.stream.start_send_unpin(message).map_err(|error| socket_error(&error))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        self.stream.poll_flush_unpin(context).map_err(|error| socket_error(&error))
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        self.stream.poll_close_unpin(context).map_err(|error| socket_error(&error))
    }
}

/// Classifies an error.
fn socket_error(error: &TungsteniteError) -> SocketError {
    use ProtocolError::{ResetWithoutClosingHandshake, SendAfterClosing};
    match error {
        TungsteniteError::Capacity(CapacityError::MessageTooLong { size, .. }) => {
            SocketError::TooBig { observed: *size }
        }
        TungsteniteError::Utf8(_) => SocketError::NotText,
        // The peer left without a close frame.
        TungsteniteError::Protocol(ResetWithoutClosingHandshake | SendAfterClosing) => SocketError::Disconnected,
        TungsteniteError::Protocol(_) => SocketError::Protocol,
        _ => SocketError::Disconnected,
    }
}

/// The bytes read since the last whole message. The socket reports a fragmented message only when it is complete, and a
/// message of endless empty fragments never is.
#[derive(Clone, Default)]
pub(super) struct ReadBudget(Arc<AtomicUsize>);

/// The largest header of a client frame.
const MAX_HEADER_BYTES: usize = 14;

impl ReadBudget {
    /// Credits a whole message. Between the fragments of a message only control frames may come; each credits its own
    /// size.
    pub(super) fn credit(&self, message: &Message) {
        match message {
            Message::Text(_) | Message::Binary(_) => self.0.store(0, Ordering::Relaxed),
            other => {
                let taken = other.len() + MAX_HEADER_BYTES;
                let _ =
                    self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |read| Some(read.saturating_sub(taken)));
            }
        }
    }

    /// Meters a stream. A message of `max_message_bytes` may take a fragment for each byte, and the read-ahead.
    pub(super) fn meter<S>(stream: S, max_message_bytes: usize) -> (Self, MeteredStream<S>) {
        let max = max_message_bytes.saturating_mul(MAX_HEADER_BYTES + 1).saturating_add(64 * 1024);
        let read = ReadBudget::default();
        (read.clone(), MeteredStream { stream, read, max })
    }
}

/// A stream whose reads are bounded by a [`ReadBudget`].
pub(super) struct MeteredStream<S> {
    stream: S,
    read: ReadBudget,
    max: usize,
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        let new = into.filled().len() - before;
        let read = self.read.0.fetch_add(new, Ordering::Relaxed).saturating_add(new);
        Poll::Ready(if read > self.max { Err(io::Error::other("too much for one message")) } else { Ok(()) })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
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
