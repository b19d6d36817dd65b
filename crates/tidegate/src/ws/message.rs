//! What messages are made of, as Rust types.

use serde::Serialize;
use tidegate_core::Key;

/// A kind of message: a Rust type that serde reads or writes as the payload.
///
/// ```
/// use serde::Deserialize;
/// use tidegate::ws::Message;
///
/// #[derive(Deserialize)]
/// struct Say {
///     text: String,
/// }
///
/// impl Message for Say {
///     const TYPE: &'static str = "SAY"; // {"type":"SAY","payload":{"text":"hello"}}
///
///     fn validate(&self) -> Result<(), String> {
///         if self.text.is_empty() { Err("there is no text".to_owned()) } else { Ok(()) }
///     }
/// }
/// ```
///
/// A message without a payload is a unit struct.
pub trait Message {
    /// What stands in the message's `type`. Types that begin with `$ws:` are the protocol's own, and so are `ERROR` and
    /// `RPC_ERROR`.
    const TYPE: &'static str;

    /// What [`keys::handler`](super::keys::handler) counts it under. Types that are to share a budget have the same.
    const HANDLER: &'static str = Self::TYPE;

    /// Whether what was read can be worked on; the text goes to the client, as INVALID_ARGUMENT.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A message that is answered: the client puts a correlation id into it, which the answer repeats.
pub trait Call: Message {
    /// The answer.
    type Reply: Message + Serialize;
}

/// What is known of a connection, from [`authenticate`](super::RouterBuilder::authenticate): who it is, and whatever else
/// handlers and limits want to know.
pub trait Data: Send + Sync + 'static {
    /// Who it is. None for somebody who is not known, who is counted under the address of the client.
    fn user(&self) -> Option<Key<'static>> {
        None
    }
}

/// Nobody is known.
impl Data for () {}
