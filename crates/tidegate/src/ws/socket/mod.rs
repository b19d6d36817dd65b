//! The sockets that messages come over.

#[cfg(feature = "axum")]
mod axum;
mod tungstenite;

use std::ops::Deref;

#[cfg(feature = "axum")]
pub use axum::route;
use bytes::Bytes;
use futures_util::{Sink, Stream};

/// A socket, whoever made it.
pub(super) trait Socket:
    Stream<Item = Result<Received<Self::Text>, Broken>> + Sink<Sent, Error = Broken> + Send + Unpin + 'static
{
    /// Text, as it was received.
    type Text: Deref<Target = str> + Send + Sync;
}

/// What a peer has sent.
pub(super) enum Received<T> {
    Text(T),
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
    /// A goodbye. The reason is cut to the 123 bytes that there is room for.
    pub(super) fn close(code: u16, reason: &str) -> Self {
        let end = (0..=reason.len().min(123)).rev().find(|&end| reason.is_char_boundary(end));
        Sent::Close(code, reason[..end.unwrap_or(0)].to_owned())
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

/// How much a socket reads and writes at once. The usual 128 KiB would be felt with many connections.
const BUFFER: usize = 16 * 1024;
