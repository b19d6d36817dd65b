//! What a router is told about its connections.

use std::time::Duration;

use super::queue::Bounds;
use super::{OnExceeded, close};

/// What a router is told about its connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    /// The longest message, in bytes.
    pub(super) max_message: usize,
    pub(super) on_payload: OnExceeded,
    pub(super) on_rate: OnExceeded,
    /// How many calls of one connection are worked on at once.
    pub(super) max_calls: u32,
    /// How many messages a connection may send in its life.
    pub(super) max_messages: Option<u64>,
    /// How many topics a connection may be subscribed to.
    pub(super) max_topics: usize,
    pub(super) outgoing: Bounds,
    pub(super) heartbeat: Option<Heartbeat>,
    /// How long a call may take.
    pub(super) call_timeout: Duration,
    /// How long one message may take to be sent.
    pub(super) send_timeout: Duration,
    /// How long the handshake may take, and authentication.
    pub(super) handshake_timeout: Duration,
    /// How long the end may take: of handlers at work, of what waits to be sent, of the peer's goodbye.
    pub(super) close_timeout: Duration,
}

/// How dead peers are noticed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heartbeat {
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_message: 64 * 1024,
            on_payload: OnExceeded::Close(close::TOO_BIG),
            on_rate: OnExceeded::Send,
            max_calls: 64,
            max_messages: None,
            max_topics: 128,
            outgoing: Bounds { messages: 256, bytes: 1024 * 1024 },
            heartbeat: Some(Heartbeat { interval: Duration::from_secs(30), timeout: Duration::from_secs(10) }),
            call_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(2),
        }
    }
}

impl Settings {
    /// What the socket itself may take in. When a message that is too big closes the connection, the socket refuses it by
    /// its header, before there is memory for it. When the client is only told, the message has to be read past, and this
    /// is the most that is.
    pub(super) fn socket_limit(&self) -> usize {
        match self.on_payload {
            OnExceeded::Close(_) => self.max_message,
            OnExceeded::Send | OnExceeded::Custom => self.max_message.saturating_mul(16),
        }
    }
}
