//! Keys that messages are counted under.
//!
//! A key function sees the [`MessageHead`] and nothing else. Without a key, the message counts under a [fallback
//! key](Key::to_fallback) of the client's address. Without an address either, it is rejected as a programming error. So
//! clients never share a budget by accident.

use std::fmt;
use std::sync::Arc;

use tidegate_core::Key;

use super::{ConnectionData, MessageHead};
use crate::http::Client;

/// The key of all message types without a handler.
const UNKNOWN: &str = "?";

type ExtractFn<D> = Arc<dyn Fn(&MessageHead<'_, D>) -> Option<Key<'static>> + Send + Sync>;

/// A function from a message to the key it is counted under, made by the functions of this [module](self).
pub struct KeyExtractor<D> {
    extract: ExtractFn<D>,
    /// Whether the key ends with the connection, so that the limit can forget it then.
    is_connection: bool,
}

impl<D> KeyExtractor<D> {
    fn new(extract: impl Fn(&MessageHead<'_, D>) -> Option<Key<'static>> + Send + Sync + 'static) -> Self {
        KeyExtractor { extract: Arc::new(extract), is_connection: false }
    }

    /// Returns the key or its fallback, and whether it ends with the connection.
    pub(super) fn extract(&self, head: &MessageHead<'_, D>) -> Option<(Key<'static>, bool)> {
        match (self.extract)(head) {
            Some(key) => Some((key, self.is_connection)),
            None => Some((fallback_key(head)?, false)),
        }
    }
}

/// Returns a key of the client's address that collides with no other key.
fn fallback_key<D>(head: &MessageHead<'_, D>) -> Option<Key<'static>> {
    head.client().map(|client| client.key().to_fallback())
}

/// Counts each user and message type separately. This is the default.
pub fn user_and_type<D: ConnectionData>() -> KeyExtractor<D> {
    both(user(), message_type())
}

/// Counts each user, from [`ConnectionData::user`]. Falls back to the client address.
pub fn user<D: ConnectionData>() -> KeyExtractor<D> {
    KeyExtractor::new(|head: &MessageHead<'_, D>| head.data().user().or_else(|| fallback_key(head)))
}

/// Counts each connection. The limit forgets the key when the connection closes. A client with many connections has
/// many budgets: limit those too.
pub fn connection<D: ConnectionData>() -> KeyExtractor<D> {
    let key = KeyExtractor::new(|head: &MessageHead<'_, D>| Some(Key::from_parts([head.connection().as_str()])));
    KeyExtractor { is_connection: true, ..key }
}

/// Counts each client address.
pub fn address<D: ConnectionData>() -> KeyExtractor<D> {
    KeyExtractor::new(|head: &MessageHead<'_, D>| head.client().map(Client::key))
}

/// Counts each message type, across all users. All types without a handler are one.
pub fn message_type<D: ConnectionData>() -> KeyExtractor<D> {
    KeyExtractor::new(|head: &MessageHead<'_, D>| Some(Key::from_parts([head.message_type().unwrap_or(UNKNOWN)])))
}

/// Counts each [handler](super::Message::HANDLER), across all users.
pub fn handler<D: ConnectionData>() -> KeyExtractor<D> {
    KeyExtractor::new(|head: &MessageHead<'_, D>| Some(Key::from_parts([head.handler().unwrap_or(UNKNOWN)])))
}

/// Counts the room or topic of the connection, from its data. The payload is not available: a client can write anything
/// into it.
pub fn room<D: ConnectionData>(room: impl Fn(&D) -> Option<Key<'static>> + Send + Sync + 'static) -> KeyExtractor<D> {
    KeyExtractor::new(move |head: &MessageHead<'_, D>| room(head.data()))
}

/// Counts all messages together.
pub fn global<D: ConnectionData>() -> KeyExtractor<D> {
    KeyExtractor::new(|_: &MessageHead<'_, D>| Some(Key::GLOBAL))
}

/// Counts by a function of your own.
pub fn custom<D: ConnectionData>(
    key: impl Fn(&MessageHead<'_, D>) -> Option<Key<'static>> + Send + Sync + 'static,
) -> KeyExtractor<D> {
    KeyExtractor::new(key)
}

/// Joins the parts of two keys.
pub fn both<D: ConnectionData>(first: KeyExtractor<D>, second: KeyExtractor<D>) -> KeyExtractor<D> {
    let is_connection = first.is_connection || second.is_connection;
    let key =
        KeyExtractor::new(move |head: &MessageHead<'_, D>| Some((first.extract)(head)?.join(&(second.extract)(head)?)));
    KeyExtractor { is_connection, ..key }
}

impl<D> Clone for KeyExtractor<D> {
    fn clone(&self) -> Self {
        KeyExtractor { extract: Arc::clone(&self.extract), is_connection: self.is_connection }
    }
}

impl<D> fmt::Debug for KeyExtractor<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyExtractor").field("is_connection", &self.is_connection).finish_non_exhaustive()
    }
}
