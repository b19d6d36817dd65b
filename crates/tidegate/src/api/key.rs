//! Who is limited, as JSON: a text, a list of texts, null, or a client's address as such.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::Problem;

/// How many bytes a key may have, all its parts together.
pub const MAX_KEY: usize = 4 << 10;

/// How many bytes its text may have, in which what parts it is escaped: a sign is at most three then.
pub const MAX_TEXT: usize = 3 * MAX_KEY;

/// Who is limited. Borrows from the line it was read from where it can.
#[derive(Debug)]
pub enum Key<'a> {
    /// Everybody, together.
    Global,
    /// Whoever has this name.
    One(Cow<'a, str>),
    /// Whoever has these, in this order.
    Parts(Vec<Part<'a>>),
    /// Who comes from this address and has said no name, written as `/v1/auth` counts it: of IPv6, the network.
    Client(Cow<'a, str>),
}

/// One of several parts.
#[derive(Debug, Deserialize)]
pub struct Part<'a>(#[serde(borrow)] Cow<'a, str>);

impl Key<'_> {
    /// How many bytes it has, which count towards [`MAX_KEY`].
    pub fn size(&self) -> usize {
        match self {
            Key::Global => 0,
            Key::One(part) | Key::Client(part) => part.len(),
            // What is between them is of the key, too: many empty parts are not nothing.
            Key::Parts(parts) => parts.iter().map(|part| part.0.len() + 1).sum::<usize>() - 1,
        }
    }

    /// The key.
    pub fn as_key(&self) -> tidegate_core::Key<'_> {
        match self {
            Key::Global => tidegate_core::Key::GLOBAL,
            Key::One(part) => tidegate_core::Key::from(part.as_ref()),
            Key::Client(address) => tidegate_core::Key::from(address.as_ref()).standing_in(),
            Key::Parts(parts) => tidegate_core::Key::from_parts(parts.iter().map(|part| part.0.as_ref())),
        }
    }

    /// The key, when it is not too long.
    pub fn checked(&self) -> Result<tidegate_core::Key<'_>, Problem> {
        match self.size() {
            0..=MAX_KEY => Ok(self.as_key()),
            found => Err(Problem::bad_request(format!("key: found {found} bytes, expected at most {MAX_KEY}"))),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

/// A client's address as such.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Client<'a> {
    #[serde(borrow)]
    client: Part<'a>,
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a list of texts, null or `{\"client\": ...}` for `key`")
    }

    fn visit_borrowed_str<E: Error>(self, part: &'de str) -> Result<Key<'de>, E> {
        Ok(Key::One(Cow::Borrowed(part)))
    }

    fn visit_str<E: Error>(self, part: &str) -> Result<Key<'de>, E> {
        Ok(Key::One(Cow::Owned(part.to_owned())))
    }

    fn visit_unit<E: Error>(self) -> Result<Key<'de>, E> {
        Ok(Key::Global)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Key<'de>, A::Error> {
        let Client { client } = Client::deserialize(MapAccessDeserializer::new(object))?;
        Ok(Key::Client(client.0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Key<'de>, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = list.next_element()? {
            parts.push(part);
        }
        if parts.is_empty() {
            // It would be everybody's key, which has to be asked for by name.
            return Err(A::Error::custom(
                "key: found an empty list, expected at least one text in it (null is everybody)",
            ));
        }
        Ok(Key::Parts(parts))
    }
}
