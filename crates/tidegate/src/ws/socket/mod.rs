//! The sockets that messages come over.

mod accept;
mod allowance;
#[cfg(feature = "axum")]
mod route;
mod upgrade;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Sink, SinkExt, Stream, StreamExt};
#[cfg(feature = "axum")]
pub use route::route;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as Failed, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use self::allowance::Allowance;

/// A socket: whole messages in, whole messages out.
pub(super) struct Socket<S> {
    stream: WebSocketStream<S>,
    /// What may be read for one message, where the bytes are counted.
    allowance: Option<Allowance>,
}

/// What a peer has sent.
pub(super) enum Received {
    Text(Utf8Bytes),
    /// So many bytes that are no message.
    Binary(usize),
    /// A ping, which the socket answers by itself.
    Ping,
    Pong,
    /// A goodbye.
    Close(Option<(u16, String)>),
}

/// What a peer is sent.
pub(super) enum Sent {
    Text(Bytes),
    Ping,
    Close(u16, String),
}

impl Sent {
    /// A goodbye. The reason is cut to the 123 bytes that there is room for, and a code that may not be sent is that of an
    /// error in this program.
    pub(super) fn close(code: u16, reason: &str) -> Self {
        let end = (0..=reason.len().min(123)).rev().find(|&end| reason.is_char_boundary(end));
        let may_be_sent = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
        Sent::Close(if may_be_sent { code } else { 1011 }, reason[..end.unwrap_or(0)].to_owned())
    }
}

/// Why a socket is of no use any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// A message was longer than the socket takes.
    TooBig { observed: usize },
    /// Text was not UTF-8.
    NotText,
    /// The peer does not speak the protocol.
    Protocol,
    /// The peer has gone.
    Gone,
}

/// A socket's own settings, when it takes messages of so many bytes.
fn config(longest: usize) -> WebSocketConfig {
    // The usual 128 KiB would be felt with many connections.
    const BUFFER: usize = 16 * 1024;
    let config = WebSocketConfig::default().max_message_size(Some(longest)).max_frame_size(Some(longest));
    config.read_buffer_size(BUFFER).write_buffer_size(BUFFER)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for Socket<S> {
    type Item = Result<Received, Broken>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let message = match ready!(self.stream.poll_next_unpin(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(broken(&error)))),
                Some(Ok(message)) => message,
            };
            if let Some(allowance) = &self.allowance {
                allowance.give_back(&message);
            }
            return Poll::Ready(Some(Ok(match message {
                Message::Text(text) => Received::Text(text),
                Message::Binary(bytes) => Received::Binary(bytes.len()),
                Message::Ping(_) => Received::Ping,
                Message::Pong(_) => Received::Pong,
                Message::Close(frame) => {
                    Received::Close(frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned())))
                }
                // Never read.
                Message::Frame(_) => continue,
            })));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<Sent> for Socket<S> {
    type Error = Broken;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.stream.poll_ready_unpin(context).map_err(|error| broken(&error))
    }

    fn start_send(mut self: Pin<&mut Self>, sent: Sent) -> Result<(), Broken> {
        let message = match sent {
            Sent::Text(text) => Message::Text(text.try_into().map_err(|_| Broken::NotText)?),
            Sent::Ping => Message::Ping(Bytes::new()),
            Sent::Close(code, reason) => Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() })),
        };
        self.stream.start_send_unpin(message).map_err(|error| broken(&error))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.stream.poll_flush_unpin(context).map_err(|error| broken(&error))
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.stream.poll_close_unpin(context).map_err(|error| broken(&error))
    }
}

/// What an error means for the connection.
fn broken(error: &Failed) -> Broken {
    use ProtocolError::{ResetWithoutClosingHandshake, SendAfterClosing};
    match error {
        Failed::Capacity(CapacityError::MessageTooLong { size, .. }) => Broken::TooBig { observed: *size },
        Failed::Utf8(_) => Broken::NotText,
        // The peer has only left without a goodbye.
        Failed::Protocol(ResetWithoutClosingHandshake | SendAfterClosing) => Broken::Gone,
        Failed::Protocol(_) => Broken::Protocol,
        _ => Broken::Gone,
    }
}
