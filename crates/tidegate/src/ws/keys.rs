//! Whom a message is counted under.
//!
//! A key function knows the [`Ingress`] and nothing else. Where it has no key, the address of the client stands in,
//! [set apart](Key::standing_in); where that is not known either, the message is refused as a mistake in the program. So
//! nobody shares a budget by accident.

use std::fmt;
use std::sync::Arc;

use tidegate_core::Key;

use super::{Data, Ingress};
use crate::http::Client;

/// What all types that no handler knows are counted under.
const UNKNOWN: &str = "?";

type Find<D> = Arc<dyn Fn(&Ingress<'_, D>) -> Option<Key<'static>> + Send + Sync>;

/// Whom a message is counted under. Made by the functions of this [module](self).
pub struct KeyOf<D> {
    find: Find<D>,
    /// Whether it ends with the connection, so that the limit can forget it then.
    is_connection: bool,
}

impl<D> KeyOf<D> {
    fn new(find: impl Fn(&Ingress<'_, D>) -> Option<Key<'static>> + Send + Sync + 'static) -> Self {
        KeyOf { find: Arc::new(find), is_connection: false }
    }

    /// The key, or what stands in for it, and whether it ends with the connection.
    pub(super) fn find(&self, ingress: &Ingress<'_, D>) -> Option<(Key<'static>, bool)> {
        match (self.find)(ingress) {
            Some(key) => Some((key, self.is_connection)),
            None => Some((stand_in(ingress)?, false)),
        }
    }
}

/// What stands in for a key: the address of the client, as nobody else can be called.
fn stand_in<D>(ingress: &Ingress<'_, D>) -> Option<Key<'static>> {
    ingress.client().map(|client| client.key().standing_in())
}

/// Each user and each type of message on its own: what messages are counted under unless said otherwise.
pub fn user_and_type<D: Data>() -> KeyOf<D> {
    both(user(), message_type())
}

/// Each user, as [`Data::user`] says; who is not known, by the address of the client.
pub fn user<D: Data>() -> KeyOf<D> {
    KeyOf::new(|ingress: &Ingress<'_, D>| ingress.data().user().or_else(|| stand_in(ingress)))
}

/// Each connection. The limit forgets it when the connection closes. Whoever can open many connections has many budgets:
/// limit those too.
pub fn connection<D: Data>() -> KeyOf<D> {
    let key = KeyOf::new(|ingress: &Ingress<'_, D>| Some(Key::from_parts([ingress.connection().as_str()])));
    KeyOf { is_connection: true, ..key }
}

/// Each client, by its address.
pub fn address<D: Data>() -> KeyOf<D> {
    KeyOf::new(|ingress: &Ingress<'_, D>| ingress.client().map(Client::key))
}

/// Each type of message, of everybody together. All types that no handler knows are one.
pub fn message_type<D: Data>() -> KeyOf<D> {
    KeyOf::new(|ingress: &Ingress<'_, D>| Some(Key::from_parts([ingress.message_type().unwrap_or(UNKNOWN)])))
}

/// Each [handler](super::Message::HANDLER), of everybody together.
pub fn handler<D: Data>() -> KeyOf<D> {
    KeyOf::new(|ingress: &Ingress<'_, D>| Some(Key::from_parts([ingress.handler().unwrap_or(UNKNOWN)])))
}

/// The room or topic that a connection is in, from what is known of the connection: the payload may say anything.
pub fn room<D: Data>(room: impl Fn(&D) -> Option<Key<'static>> + Send + Sync + 'static) -> KeyOf<D> {
    KeyOf::new(move |ingress: &Ingress<'_, D>| room(ingress.data()))
}

/// Everybody together.
pub fn global<D: Data>() -> KeyOf<D> {
    KeyOf::new(|_: &Ingress<'_, D>| Some(Key::GLOBAL))
}

/// Something else.
pub fn custom<D: Data>(key: impl Fn(&Ingress<'_, D>) -> Option<Key<'static>> + Send + Sync + 'static) -> KeyOf<D> {
    KeyOf::new(key)
}

/// The parts of both keys.
pub fn both<D: Data>(first: KeyOf<D>, second: KeyOf<D>) -> KeyOf<D> {
    let is_connection = first.is_connection || second.is_connection;
    let key = KeyOf::new(move |ingress: &Ingress<'_, D>| Some((first.find)(ingress)?.and(&(second.find)(ingress)?)));
    KeyOf { is_connection, ..key }
}

impl<D> Clone for KeyOf<D> {
    fn clone(&self) -> Self {
        KeyOf { find: Arc::clone(&self.find), is_connection: self.is_connection }
    }
}

impl<D> fmt::Debug for KeyOf<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyOf").field("is_connection", &self.is_connection).finish_non_exhaustive()
    }
}
