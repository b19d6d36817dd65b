//! Keys: the identity that a limit counts by.

mod part;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::hash::stable_hash;
use part::decimal_digits;
use text::{
    FALLBACK_MARK, KeyText, RESERVED_MARK, SEPARATOR, is_escaped, is_leading_mark, is_mark, is_plain, is_shard,
    unescape,
};

/// The length of the longest owned key without a heap allocation.
const INLINE_LEN: usize = 62;

/// The identity that a limit counts by: one or more parts, or the whole limit ([`Key::GLOBAL`]).
///
/// Parts never run together: `("a|b", "c")` and `("a", "b|c")` differ, and no text from a client can look like two
/// parts. A number or an address equals its text: `42` and `"42"` are one key. An array of bytes, such as a UUID,
/// equals its lowercase hexadecimal digits.
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
    encoding: Encoding,
    bytes: KeyBytes<'a>,
}

/// The encoding of a key's bytes. Keys are equal when encoding and bytes are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Encoding {
    /// One unescaped part. The usual key only borrows it.
    SinglePart,
    /// No part, several parts, or a shard: escaped text.
    Escaped,
}

/// The bytes of a key, valid UTF-8 in every variant.
#[derive(Clone)]
enum KeyBytes<'a> {
    Borrowed(&'a [u8]),
    Inline { len: u8, bytes: [u8; INLINE_LEN] },
    Heap(String),
}

impl Key<'static> {
    /// The key of all clients together: one budget for the whole limit.
    pub const GLOBAL: Key<'static> = Key { encoding: Encoding::Escaped, bytes: KeyBytes::Borrowed(b"") };

    /// Returns the key of shard `index`, for a limit whose one budget is cut into shards. No user's key can be equal to
    /// it.
    pub fn shard(index: u32) -> Self {
        let mut text = KeyText::new();
        text.push_shard(index);
        text.finish(Encoding::Escaped)
    }

    /// Creates a key from parts. A single part equals the key of that part. Without parts, the key is [`Key::GLOBAL`].
    pub fn from_parts<P: AsRef<str>>(parts: impl IntoIterator<Item = P>) -> Self {
        let mut parts = parts.into_iter();
        match (parts.next(), parts.next()) {
            (None, _) => Key::GLOBAL,
            (Some(only), None) => Key::from_part(only.as_ref()),
            (Some(first), Some(second)) => {
                let mut text = KeyText::new();
                text.push_part(first.as_ref());
                text.push_part(second.as_ref());
                parts.for_each(|part| text.push_part(part.as_ref()));
                text.finish(Encoding::Escaped)
            }
        }
    }

    /// Returns the key with this [text](Key::to_text), or `None` for a text that no key has.
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
        // A shard belongs to the key before it. `GLOBAL` is the empty text.
        let (key, shard) = match text.rsplit_once(SEPARATOR as char) {
            Some((key, last)) if is_shard(last) => (Some(key), true),
            _ if is_shard(text) => (None, true),
            _ => (Some(text), false),
        };
        let pieces: Vec<&str> = key.filter(|key| !key.is_empty()).into_iter().flat_map(|key| key.split('|')).collect();
        let is_well_formed = |(index, piece): (usize, &&str)| match *piece {
            // `GLOBAL` after a mark.
            "" => index > 0 && is_leading_mark(pieces[index - 1]),
            piece => is_leading_mark(piece) || is_escaped(piece),
        };
        if !pieces.iter().enumerate().all(is_well_formed) || pieces.last().is_some_and(|last| is_leading_mark(last)) {
            return None;
        }
        match (&*pieces, shard) {
            ([only], false) => Some(Key::from_part(&unescape(only))),
            _ => {
                let mut copy = KeyText::new();
                copy.push_raw(text.as_bytes());
                Some(copy.finish(Encoding::Escaped))
            }
        }
    }

    #[inline]
    fn from_number(number: u64, negative: bool) -> Self {
        Key::inline(decimal_digits(number, negative))
    }

    #[inline]
    fn inline((len, bytes): (u8, [u8; INLINE_LEN])) -> Self {
        Key { encoding: Encoding::SinglePart, bytes: KeyBytes::Inline { len, bytes } }
    }

    fn from_part(part: &str) -> Self {
        let mut text = KeyText::new();
        text.push_raw(part.as_bytes());
        text.finish(Encoding::SinglePart)
    }
}

impl<'a> Key<'a> {
    /// Returns the key as one escaped text that no other key has. Only [`Key::GLOBAL`] is empty.
    pub fn to_text(&self) -> Cow<'_, str> {
        match self.encoding {
            Encoding::SinglePart if is_plain(self.as_str()) => Cow::Borrowed(self.as_str()),
            Encoding::SinglePart => {
                let mut text = KeyText::new();
                text.push_part(self.as_str());
                Cow::Owned(text.finish(Encoding::Escaped).as_str().to_owned())
            }
            Encoding::Escaped => Cow::Borrowed(self.as_str()),
        }
    }

    /// Returns a number and bytes that no other key has, for stores that hash keys and keep no text.
    #[inline]
    pub fn as_raw(&self) -> (u8, &[u8]) {
        (self.encoding as u8, self.as_bytes())
    }

    /// Returns a hash for routing that is equal in every process and version. It is not safe against attackers.
    pub fn stable_hash(&self, seed: u64) -> u64 {
        let (encoding, bytes) = self.as_raw();
        stable_hash(seed.wrapping_add(u64::from(encoding)), bytes)
    }

    /// Returns the parts that the key was made of. [`Key::GLOBAL`] has none.
    pub fn parts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let (one, several) = match self.encoding {
            Encoding::SinglePart => (Some(Cow::Borrowed(self.as_str())), None),
            Encoding::Escaped if self.as_str().is_empty() => (None, None),
            Encoding::Escaped => (None, Some(self.as_str().split(SEPARATOR as char).map(unescape))),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// Returns the key of shard `index` of this key's own budget. No user's key can be equal to it.
    pub fn with_shard(&self, index: u32) -> Key<'static> {
        let mut text = KeyText::new();
        text.push_key(self);
        text.push_raw(&[SEPARATOR]);
        text.push_shard(index);
        text.finish(Encoding::Escaped)
    }

    /// Returns this key in a reserved namespace, for the second of two ways to identify a client. No key made of parts
    /// is equal to it, so no client can send a name that collides with it.
    #[must_use]
    pub fn to_reserved(&self) -> Key<'static> {
        self.with_mark(RESERVED_MARK)
    }

    /// Returns this key as the fallback for a missing one, such as the address of an unidentified client. No key made in
    /// another way is equal to it, [reserved](Key::to_reserved) ones included.
    #[must_use]
    pub fn to_fallback(&self) -> Key<'static> {
        self.with_mark(FALLBACK_MARK)
    }

    /// Returns the key that this [fallback key](Key::to_fallback) was made of, if it is one.
    pub fn strip_fallback(&self) -> Option<Key<'static>> {
        self.strip_mark(FALLBACK_MARK)
    }

    /// Returns the key that this [reserved key](Key::to_reserved) was made of, if it is one.
    pub fn strip_reserved(&self) -> Option<Key<'static>> {
        self.strip_mark(RESERVED_MARK)
    }

    /// Returns the key after a leading mark, if it has that mark.
    fn strip_mark(&self, mark: &str) -> Option<Key<'static>> {
        let text = (self.encoding == Encoding::Escaped).then(|| self.as_str())?;
        Key::from_text(text.strip_prefix(mark)?.strip_prefix(SEPARATOR as char)?)
    }

    /// Returns this key with a leading mark. A client's `%` is written `%25`, and a shard is `%s`.
    fn with_mark(&self, mark: &str) -> Key<'static> {
        let mut text = KeyText::new();
        text.push_raw(mark.as_bytes());
        text.push_raw(&[SEPARATOR]);
        text.push_key(self);
        text.finish(Encoding::Escaped)
    }

    /// Appends the parts of another key.
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
                // Joins texts and not parts, so that a reserved key stays reserved.
                let mut text = KeyText::new();
                text.push_key(self);
                text.push_raw(&[SEPARATOR]);
                text.push_key(other);
                text.finish(Encoding::Escaped)
            }
        }
    }

    /// Returns this key with every part changed. A [reserved key](Key::to_reserved) stays reserved.
    #[must_use]
    pub fn map_parts(&self, change: impl Fn(&str) -> Cow<'_, str>) -> Key<'static> {
        if self.encoding == Encoding::SinglePart {
            return Key::from_part(&change(self.as_str()));
        }
        let mut text = KeyText::new();
        for (index, part) in self.as_str().split(SEPARATOR as char).enumerate() {
            if index > 0 {
                text.push_raw(&[SEPARATOR]);
            }
            match part {
                // Without parts, or a mark.
                "" => {}
                part if is_mark(part) => text.push_raw(part.as_bytes()),
                part => text.push_escaped(&change(&unescape(part))),
            }
        }
        text.finish(Encoding::Escaped)
    }

    /// Converts this key into one that owns its text.
    pub fn into_owned(self) -> Key<'static> {
        let bytes = match self.bytes {
            KeyBytes::Borrowed(bytes) => {
                let mut owned = KeyText::new();
                owned.push_raw(bytes);
                return owned.finish(self.encoding);
            }
            KeyBytes::Inline { len, bytes } => KeyBytes::Inline { len, bytes },
            KeyBytes::Heap(text) => KeyBytes::Heap(text),
        };
        Key { encoding: self.encoding, bytes }
    }

    /// Returns an equal key that borrows from this one.
    #[inline]
    pub fn borrow(&self) -> Key<'_> {
        Key { encoding: self.encoding, bytes: KeyBytes::Borrowed(self.as_bytes()) }
    }

    fn as_str(&self) -> &str {
        match &self.bytes {
            KeyBytes::Heap(text) => text,
            _ => str::from_utf8(self.as_bytes()).expect("built from whole str parts"),
        }
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        match &self.bytes {
            KeyBytes::Borrowed(bytes) => bytes,
            KeyBytes::Inline { len, bytes } => &bytes[..usize::from(*len)],
            KeyBytes::Heap(text) => text.as_bytes(),
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
        Key { encoding: Encoding::SinglePart, bytes: KeyBytes::Borrowed(part.as_bytes()) }
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
        Key::from_part(&part)
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
        // The caller chooses the lifetime, here and below, so that an owned key fits wherever a borrowed one does.
        Key { encoding: Encoding::SinglePart, bytes: KeyBytes::Heap(part) }
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
    fn keys_with_different_parts_differ() {
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
        let mut reserved = std::collections::HashSet::new();
        for parts in seen.values() {
            let key = Key::from_parts(parts).to_reserved();
            assert!(!seen.contains_key(&*key.to_text()), "{parts:?}");
            assert_eq!(key.parts().skip(1).collect::<Vec<_>>(), *parts);
            assert_eq!(Key::from_text(&key.to_text()), Some(key.clone()));
            assert!(reserved.insert(key), "{parts:?}");
        }
        let reserved_global = Key::GLOBAL.to_reserved();
        let special = [
            Key::GLOBAL,
            Key::shard(7),
            Key::from("a").with_shard(0),
            Key::GLOBAL.with_shard(0),
            Key::from("").with_shard(1),
            Key::from(("a", "b")).join(&Key::from("c").to_reserved()).with_shard(2),
            reserved_global.join(&Key::from("a")),
            reserved_global.with_shard(3),
            reserved_global,
            Key::from("a").to_fallback(),
            Key::GLOBAL.to_fallback(),
            Key::from("a").to_fallback().join(&Key::from("b")).with_shard(4),
        ];
        for key in seen.values().map(Key::from_parts).chain(special) {
            assert_eq!(Key::from_text(&key.to_text()), Some(key));
        }
        let malformed = "%7 %a %ax a|%a %c a|%c %s %s07 %s1|b %s4294967296 a||b | a| %% a%";
        for text in malformed.split(' ') {
            assert_eq!(Key::from_text(text), None, "{text}");
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
        // The raw bytes, which stores hash, are as distinct as the texts.
        let raw: std::collections::HashSet<_> = seen.values().map(Key::from_parts).collect();
        assert_eq!(raw.len(), seen.len());
    }

    #[test]
    fn reserved_and_fallback_keys_cannot_be_forged() {
        let address = Key::from("192.0.2.1");
        let more = Key::from("/Path");
        let lowercase = |key: &Key<'_>| key.map_parts(|part| part.to_lowercase().into());
        // A client could try these as parts.
        let forged = [Key::from(("%a", "192.0.2.1")), Key::from(("%c", "192.0.2.1"))];
        for special in [address.to_reserved(), address.to_fallback()] {
            for forged in &forged {
                assert_ne!(special.join(&more), forged.join(&more));
                assert_ne!(more.join(&special), more.join(forged));
                assert_ne!(lowercase(&special.join(&more)), lowercase(&forged.join(&more)));
            }
            assert_eq!(lowercase(&special.join(&more)), special.join(&Key::from("/path")));
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
