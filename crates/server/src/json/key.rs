//! Who is limited, as JSON: a text, a list of texts, or null.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

/// How many bytes a key may have, all its parts together.
pub(crate) const MAX_KEY: usize = 4 << 10;

/// Who is limited. Borrows from the line it was read from where it can.
#[derive(Debug)]
pub(crate) enum Key<'a> {
    Global,
    One(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Debug, Deserialize)]
pub(crate) struct Part<'a>(#[serde(borrow)] Cow<'a, str>);

impl Key<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Key::Global => 0,
            Key::One(part) => part.len(),
            // What is between them is of the key, too: many empty parts are not nothing.
            Key::Parts(parts) => parts.iter().map(|part| part.0.len() + 1).sum::<usize>() - 1,
        }
    }

    pub(crate) fn as_key(&self) -> tidegate::Key<'_> {
        match self {
            Key::Global => tidegate::Key::GLOBAL,
            Key::One(part) => tidegate::Key::from(part.as_ref()),
            Key::Parts(parts) => tidegate::Key::from_parts(parts.iter().map(|part| part.0.as_ref())),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a list of texts or null for `key`")
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
