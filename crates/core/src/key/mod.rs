//! Who is limited.

mod part;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::hash::stable_hash;
use part::digits;
use text::{APART, SEPARATOR, STAND_IN, Text, is_before, is_escaped, is_mark, is_plain, is_shard, unescape};

/// How much fits in a key without a heap allocation, when it cannot be borrowed.
const INLINE: usize = 62;

/// Who is limited: one or more parts, or everybody ([`Key::GLOBAL`]).
///
/// Parts never run together: `("a|b", "c")` and `("a", "b|c")` differ, and no text a client sends can look like two
/// parts. Numbers and addresses are the same key as their text: `42` and `"42"` meet. An array of bytes, such as a UUID's, is its
/// lowercase hexadecimal digits.
///
/// ```
/// use tidegate_core::Key;
///
/// assert_eq!(Key::from(42_u64), Key::from("42"));
/// assert_ne!(Key::from(("a|b", "c")), Key::from(("a", "b|c")));
/// assert_ne!(Key::from(""), Key::GLOBAL);
/// assert_eq!(Key::from(("tenant", 7_u64)).to_text(), "tenant|7");
/// ```
#[derive(Clone)]
pub struct Key<'a> {
    shape: Shape,
    bytes: Bytes<'a>,
}

/// What the bytes of a key are. With the bytes it tells keys apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Shape {
    /// One part as it is, so that the usual key is only borrowed.
    One,
    /// No part, several parts, or a part of a budget: escaped text.
    Text,
}

#[derive(Clone)]
enum Bytes<'a> {
    /// Of a whole `str`, as all of these.
    Borrowed(&'a [u8]),
    Inline {
        len: u8,
        bytes: [u8; INLINE],
    },
    Heap(String),
}

impl Key<'static> {
    /// Everybody together: one budget for the whole limit.
    pub const GLOBAL: Key<'static> = Key { shape: Shape::Text, bytes: Bytes::Borrowed(b"") };

    /// The key of part `index` of a limit whose one budget is cut into parts. No user's key can be equal to it.
    pub fn shard(index: u32) -> Self {
        let mut text = Text::new();
        text.push_shard(index);
        text.finish(Shape::Text)
    }

    /// A key of these parts. One part is the same key as the part itself; no part at all is [`Key::GLOBAL`].
    pub fn from_parts<P: AsRef<str>>(parts: impl IntoIterator<Item = P>) -> Self {
        let mut parts = parts.into_iter();
        match (parts.next(), parts.next()) {
            (None, _) => Key::GLOBAL,
            (Some(only), None) => Key::one(only.as_ref()),
            (Some(first), Some(second)) => {
                let mut text = Text::new();
                text.push_part(first.as_ref());
                text.push_part(second.as_ref());
                parts.for_each(|part| text.push_part(part.as_ref()));
                text.finish(Shape::Text)
            }
        }
    }

    /// The key whose [text](Key::to_text) this is; none for a text that no key has.
    ///
    /// ```
    /// # use tidegate_core::Key;
    /// let key = Key::from(("tenant|a", 7_u64));
    /// assert_eq!(Key::from_text(&key.to_text()), Some(key));
    /// assert_eq!(Key::from_text("50%"), None);
    /// ```
    pub fn from_text(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Key::GLOBAL);
        }
        // A shard is a shard of whatever is before it, which may be of everybody: nothing.
        let (key, shard) = match text.rsplit_once(SEPARATOR as char) {
            Some((key, last)) if is_shard(last) => (Some(key), true),
            _ if is_shard(text) => (None, true),
            _ => (Some(text), false),
        };
        let pieces: Vec<&str> = key.filter(|key| !key.is_empty()).into_iter().flat_map(|key| key.split('|')).collect();
        let is_well_formed = |(index, piece): (usize, &&str)| match *piece {
            // Of everybody, set apart.
            "" => index > 0 && is_before(pieces[index - 1]),
            piece => is_before(piece) || is_escaped(piece),
        };
        if !pieces.iter().enumerate().all(is_well_formed) || pieces.last().is_some_and(|last| is_before(last)) {
            return None;
        }
        match (&*pieces, shard) {
            ([only], false) => Some(Key::one(&unescape(only))),
            _ => {
                let mut whole = Text::new();
                whole.push_raw(text.as_bytes());
                Some(whole.finish(Shape::Text))
            }
        }
    }

    #[inline]
    fn number(number: u64, negative: bool) -> Self {
        Key::in_place(digits(number, negative))
    }

    #[inline]
    fn in_place((len, bytes): (u8, [u8; INLINE])) -> Self {
        Key { shape: Shape::One, bytes: Bytes::Inline { len, bytes } }
    }

    fn one(part: &str) -> Self {
        let mut text = Text::new();
        text.push_raw(part.as_bytes());
        text.finish(Shape::One)
    }
}

impl<'a> Key<'a> {
    /// The key as one escaped text, different for different keys. Empty for [`Key::GLOBAL`] only.
    pub fn to_text(&self) -> Cow<'_, str> {
        match self.shape {
            Shape::One if is_plain(self.as_str()) => Cow::Borrowed(self.as_str()),
            Shape::One => {
                let mut text = Text::new();
                text.push_part(self.as_str());
                Cow::Owned(text.finish(Shape::Text).as_str().to_owned())
            }
            Shape::Text => Cow::Borrowed(self.as_str()),
        }
    }

    /// Bytes and a number that together are different for different keys: what a store hashes that keeps no text.
    #[inline]
    pub fn as_raw(&self) -> (u8, &[u8]) {
        (self.shape as u8, self.as_bytes())
    }

    /// A hash that is the same in every process and version: for routing, never for defence.
    pub fn stable_hash(&self, seed: u64) -> u64 {
        let (shape, bytes) = self.as_raw();
        stable_hash(seed.wrapping_add(u64::from(shape)), bytes)
    }

    /// The parts the key was made of. None for [`Key::GLOBAL`].
    pub fn parts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let (one, several) = match self.shape {
            Shape::One => (Some(Cow::Borrowed(self.as_str())), None),
            Shape::Text if self.as_str().is_empty() => (None, None),
            Shape::Text => (None, Some(self.as_str().split(SEPARATOR as char).map(unescape))),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// The key of part `index` of this key's own budget. No user's key can be equal to it.
    pub fn with_shard(&self, index: u32) -> Key<'static> {
        let mut text = Text::new();
        text.push_key(self);
        text.push_raw(&[SEPARATOR]);
        text.push_shard(index);
        text.finish(Shape::Text)
    }

    /// This key, set apart from all that are made of parts: for the second of two ways to know somebody. Nobody can send a name
    /// that is equal to it by the first.
    #[must_use]
    pub fn to_reserved(&self) -> Key<'static> {
        self.behind(APART)
    }

    /// This key, as what stands in for one that is missing: the address of a user who has not said who it is. It is equal to no
    /// key that is made in another way, one that is [set apart](Key::to_reserved) included.
    #[must_use]
    pub fn to_fallback(&self) -> Key<'static> {
        self.behind(STAND_IN)
    }

    /// The key that [stands in](Key::to_fallback) here for one that is missing, if one does.
    pub fn strip_fallback(&self) -> Option<Key<'static>> {
        self.stands_behind(STAND_IN)
    }

    /// The key that is [set apart](Key::to_reserved) here, if one is.
    pub fn strip_reserved(&self) -> Option<Key<'static>> {
        self.stands_behind(APART)
    }

    fn stands_behind(&self, mark: &str) -> Option<Key<'static>> {
        let text = (self.shape == Shape::Text).then(|| self.as_str())?;
        Key::from_text(text.strip_prefix(mark)?.strip_prefix(SEPARATOR as char)?)
    }

    /// This key behind a mark. A user's `%` is written `%25`, and a shard is `%s`.
    fn behind(&self, mark: &str) -> Key<'static> {
        let mut text = Text::new();
        text.push_raw(mark.as_bytes());
        text.push_raw(&[SEPARATOR]);
        text.push_key(self);
        text.finish(Shape::Text)
    }

    /// This key and the parts of another, as one key.
    ///
    /// ```
    /// # use tidegate_core::Key;
    /// assert_eq!(Key::from("tenant").join(&Key::from(("user", 7_u64))), Key::from(("tenant", "user", 7_u64)));
    /// ```
    #[must_use]
    pub fn join(&self, other: &Key<'_>) -> Key<'static> {
        match (self == &Key::GLOBAL, other == &Key::GLOBAL) {
            (true, _) => other.clone().into_owned(),
            (_, true) => self.clone().into_owned(),
            _ => {
                // Their texts and not their parts: what is set apart stays so.
                let mut text = Text::new();
                text.push_key(self);
                text.push_raw(&[SEPARATOR]);
                text.push_key(other);
                text.finish(Shape::Text)
            }
        }
    }

    /// This key with every part changed. One that is [set apart](Key::to_reserved) stays so.
    #[must_use]
    pub fn map_parts(&self, change: impl Fn(&str) -> Cow<'_, str>) -> Key<'static> {
        if self.shape == Shape::One {
            return Key::one(&change(self.as_str()));
        }
        let mut text = Text::new();
        for (index, part) in self.as_str().split(SEPARATOR as char).enumerate() {
            if index > 0 {
                text.push_raw(&[SEPARATOR]);
            }
            match part {
                // No part at all, and what no part can be.
                "" => {}
                part if is_mark(part) => text.push_raw(part.as_bytes()),
                part => text.push_escaped(&change(&unescape(part))),
            }
        }
        text.finish(Shape::Text)
    }

    /// This key, owning its text.
    pub fn into_owned(self) -> Key<'static> {
        let bytes = match self.bytes {
            Bytes::Borrowed(bytes) => {
                let mut owned = Text::new();
                owned.push_raw(bytes);
                return owned.finish(self.shape);
            }
            Bytes::Inline { len, bytes } => Bytes::Inline { len, bytes },
            Bytes::Heap(text) => Bytes::Heap(text),
        };
        Key { shape: self.shape, bytes }
    }

    /// A key of the same text that borrows from this one.
    #[inline]
    pub fn borrow(&self) -> Key<'_> {
        Key { shape: self.shape, bytes: Bytes::Borrowed(self.as_bytes()) }
    }

    fn as_str(&self) -> &str {
        match &self.bytes {
            Bytes::Heap(text) => text,
            _ => str::from_utf8(self.as_bytes()).expect("built from whole str parts"),
        }
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Bytes::Heap(text) => text.as_bytes(),
        }
    }
}

impl PartialEq for Key<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_raw() == other.as_raw()
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_raw().hash(state);
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.to_text()).finish()
    }
}

impl<'a> From<&'a str> for Key<'a> {
    #[inline]
    fn from(part: &'a str) -> Self {
        Key { shape: Shape::One, bytes: Bytes::Borrowed(part.as_bytes()) }
    }
}

impl<'a> From<&'a String> for Key<'a> {
    #[inline]
    fn from(part: &'a String) -> Self {
        Key::from(part.as_str())
    }
}

impl<'a> From<&'a Arc<str>> for Key<'a> {
    #[inline]
    fn from(part: &'a Arc<str>) -> Self {
        Key::from(&**part)
    }
}

impl<'k> From<Arc<str>> for Key<'k> {
    fn from(part: Arc<str>) -> Self {
        Key::one(&part)
    }
}

impl<'k> From<Box<str>> for Key<'k> {
    fn from(part: Box<str>) -> Self {
        Key::from(String::from(part))
    }
}

impl<'a> From<Cow<'a, str>> for Key<'a> {
    fn from(part: Cow<'a, str>) -> Self {
        match part {
            Cow::Borrowed(part) => Key::from(part),
            Cow::Owned(part) => Key::from(part),
        }
    }
}

impl<'k> From<String> for Key<'k> {
    fn from(part: String) -> Self {
        // A lifetime of the caller's choosing, here and below, so that a key fits wherever a borrowed one does.
        Key { shape: Shape::One, bytes: Bytes::Heap(part) }
    }
}

impl<'a> From<&'a Key<'_>> for Key<'a> {
    fn from(key: &'a Key<'_>) -> Self {
        key.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_run_together() {
        let tricky = ["", "%", "|", "a|b", "a%7cb", "%25", "%7c", "%s0", "a", "b", "a|", "|a", "ü|ö"];
        let mut seen = std::collections::HashMap::new();
        for first in tricky {
            assert!(seen.insert(Key::from(first).to_text().into_owned(), vec![first]).is_none(), "{first:?}");
            for second in tricky {
                let text = Key::from((first, second)).to_text().into_owned();
                assert!(seen.insert(text, vec![first, second]).is_none(), "{first:?} {second:?}");
            }
        }
        for (text, parts) in &seen {
            assert_eq!(Key::from_parts(parts).to_text(), *text);
            let key = Key::from_parts(parts);
            assert_eq!(key.parts().collect::<Vec<_>>(), *parts);
        }
        for index in 0..100 {
            assert!(!seen.contains_key(&*Key::shard(index).to_text()));
            assert!(!seen.contains_key(&*Key::from("a").with_shard(index).to_text()));
        }
        let mut apart = std::collections::HashSet::new();
        for parts in seen.values() {
            let key = Key::from_parts(parts).to_reserved();
            assert!(!seen.contains_key(&*key.to_text()), "{parts:?}");
            assert_eq!(key.parts().skip(1).collect::<Vec<_>>(), *parts);
            assert_eq!(Key::from_text(&key.to_text()), Some(key.clone()));
            assert!(apart.insert(key), "{parts:?}");
        }
        let everybody = Key::GLOBAL.to_reserved();
        let special = [
            Key::GLOBAL,
            Key::shard(7),
            Key::from("a").with_shard(0),
            Key::GLOBAL.with_shard(0),
            Key::from("").with_shard(1),
            Key::from(("a", "b")).join(&Key::from("c").to_reserved()).with_shard(2),
            everybody.join(&Key::from("a")),
            everybody.with_shard(3),
            everybody,
            Key::from("a").to_fallback(),
            Key::GLOBAL.to_fallback(),
            Key::from("a").to_fallback().join(&Key::from("b")).with_shard(4),
        ];
        for key in seen.values().map(Key::from_parts).chain(special) {
            assert_eq!(Key::from_text(&key.to_text()), Some(key));
        }
        let nobodys = "%7 %a %ax a|%a %c a|%c %s %s07 %s1|b %s4294967296 a||b | a| %% a%";
        for nobodys in nobodys.split(' ') {
            assert_eq!(Key::from_text(nobodys), None, "{nobodys}");
        }
        assert!(!seen.contains_key(&*Key::GLOBAL.to_text()));
        for parts in seen.values() {
            let key = Key::from_parts(parts);
            for other in [Key::GLOBAL, Key::from(""), Key::from("%a"), Key::from(("x|y", "%"))] {
                let joined = Key::from_parts(key.parts().chain(other.parts()));
                assert_eq!((key.join(&other), Key::GLOBAL.join(&key)), (joined, key.clone()), "{parts:?}");
            }
            assert_eq!(key.map_parts(|part| part.into()), key);
            assert_eq!(key.map_parts(|_| "|".into()), Key::from_parts(parts.iter().map(|_| "|")));
        }
        // What a store hashes tells them apart as well as the text does.
        let raw: std::collections::HashSet<_> = seen.values().map(Key::from_parts).collect();
        assert_eq!(raw.len(), seen.len());
    }

    #[test]
    fn what_is_set_apart_stays_so_whatever_is_made_of_it() {
        let address = Key::from("192.0.2.1");
        let more = Key::from("/Path");
        let lowercase = |key: &Key<'_>| key.map_parts(|part| part.to_lowercase().into());
        // What somebody who may choose several parts could try.
        let forged = [Key::from(("%a", "192.0.2.1")), Key::from(("%c", "192.0.2.1"))];
        for apart in [address.to_reserved(), address.to_fallback()] {
            for forged in &forged {
                assert_ne!(apart.join(&more), forged.join(&more));
                assert_ne!(more.join(&apart), more.join(forged));
                assert_ne!(lowercase(&apart.join(&more)), lowercase(&forged.join(&more)));
            }
            assert_eq!(lowercase(&apart.join(&more)), apart.join(&Key::from("/path")));
        }
        assert_ne!(address.to_reserved(), address.to_fallback());
        for key in [address.clone(), more.join(&address), Key::GLOBAL] {
            assert_eq!(
                (key.to_fallback().strip_fallback(), key.to_fallback().strip_reserved()),
                (Some(key.clone()), None)
            );
            assert_eq!(
                (key.to_reserved().strip_reserved(), key.to_reserved().strip_fallback()),
                (Some(key.clone()), None)
            );
            assert_eq!((key.strip_fallback(), key.strip_reserved()), (None, None));
        }
        assert!(forged.iter().all(|key| key.strip_fallback().is_none() && key.strip_reserved().is_none()));
        assert_eq!(lowercase(&more.with_shard(3)), Key::from("/path").with_shard(3));
        assert_eq!(lowercase(&Key::GLOBAL), Key::GLOBAL);
        assert_eq!(lowercase(&Key::GLOBAL.to_reserved()), Key::GLOBAL.to_reserved());
    }
}
