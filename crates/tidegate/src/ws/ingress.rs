//! What limits may know of a message.

use tidegate_core::Timestamp;

use super::ConnectionId;
use crate::http::Client;

/// What limits may know of a message: nothing of its payload, which nobody has looked at yet. So a key or a cost cannot
/// depend on what a client makes up.
#[derive(Debug)]
pub struct Ingress<'a, D> {
    pub(super) message_type: Option<&'static str>,
    pub(super) handler: Option<&'static str>,
    pub(super) connection: &'a ConnectionId,
    pub(super) client: Option<&'a Client>,
    pub(super) data: &'a D,
    pub(super) received: Timestamp,
}

impl<D> Ingress<'_, D> {
    /// The type, if a handler knows it. Of the others a client can make up as many as it likes, so they are all the same.
    pub fn message_type(&self) -> Option<&'static str> {
        self.message_type
    }

    /// What its handler is [called](super::Message::HANDLER).
    pub fn handler(&self) -> Option<&'static str> {
        self.handler
    }

    /// The connection.
    pub fn connection(&self) -> &ConnectionId {
        self.connection
    }

    /// The client, as far as its address can be known.
    pub fn client(&self) -> Option<&Client> {
        self.client
    }

    /// What is known of the connection.
    pub fn data(&self) -> &D {
        self.data
    }

    /// When the message was received.
    pub fn received(&self) -> Timestamp {
        self.received
    }
}
