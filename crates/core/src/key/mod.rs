//! Who is limited.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::hash::stable_hash;

/// Between the parts of a key's text.
const SEPARATOR: u8 = b'|';
const ESCAPE: u8 = b'%';

/// How much fits in a key without a heap allocation, when it cannot be borrowed.
const INLINE: usize = 62;

/// Who is limited: one or more parts, or everybody ([`Key::GLOBAL`]).
///
/// Parts never run together: `("a|b", "c")` and `("a", "b|c")` differ, and no text a client sends can look like two
/// parts. Numbers and addresses are the same key as their text: `42` and `"42"` meet.
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

    #[inline]
    fn number(number: u64, negative: bool) -> Self {
        let (len, bytes) = digits(number, negative);
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
        match self.shape {
            Shape::One => text.push_part(self.as_str()),
            Shape::Text => text.push_raw(self.as_bytes()),
        }
        text.push_raw(&[SEPARATOR]);
        text.push_shard(index);
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

/// Things that can be one part of a key.
pub trait Part {
    /// Hands the part's text to `write`.
    fn with_text(&self, write: &mut dyn FnMut(&str));
}

impl<P: Part + ?Sized> Part for &P {
    fn with_text(&self, write: &mut dyn FnMut(&str)) {
        P::with_text(self, write);
    }
}

impl Part for str {
    fn with_text(&self, write: &mut dyn FnMut(&str)) {
        write(self);
    }
}

impl Part for String {
    fn with_text(&self, write: &mut dyn FnMut(&str)) {
        write(self);
    }
}

/// A number's decimal digits in place, without the formatting machinery, which would cost more than the decision.
#[inline]
fn digits(mut number: u64, negative: bool) -> (u8, [u8; INLINE]) {
    let mut bytes = [0; INLINE];
    let len = usize::from(negative) + number.checked_ilog10().unwrap_or(0) as usize + 1;
    for byte in bytes[..len].iter_mut().rev() {
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
    }
    if negative {
        bytes[0] = b'-';
    }
    (len as u8, bytes)
}

fn with_digits(number: u64, negative: bool, write: &mut dyn FnMut(&str)) {
    let (len, bytes) = digits(number, negative);
    write(str::from_utf8(&bytes[..usize::from(len)]).expect("digits"));
}

macro_rules! numbers {
    ($($unsigned:ty, $signed:ty;)*) => { $(
        impl Part for $unsigned {
            fn with_text(&self, write: &mut dyn FnMut(&str)) {
                with_digits(u64::from(*self), false, write);
            }
        }
        impl Part for $signed {
            fn with_text(&self, write: &mut dyn FnMut(&str)) {
                with_digits(u64::from(self.unsigned_abs()), *self < 0, write);
            }
        }
    )* };
}

numbers! { u8, i8; u16, i16; u32, i32; u64, i64; }

macro_rules! displayed {
    ($($part:ty),*) => { $(
        impl Part for $part {
            fn with_text(&self, write: &mut dyn FnMut(&str)) {
                write(&self.to_string());
            }
        }
    )* };
}

displayed! { usize, isize, u128, i128, IpAddr, Ipv4Addr, Ipv6Addr }

macro_rules! single {
    ($($part:ty),* => $key:expr) => { $(
        impl<'k> From<$part> for Key<'k> {
            #[inline]
            fn from(part: $part) -> Self {
                Key::from(&part)
            }
        }
        impl<'k> From<&$part> for Key<'k> {
            #[inline]
            #[allow(clippy::useless_conversion)] // of the widest of the numbers
            fn from(part: &$part) -> Self {
                $key(part)
            }
        }
    )* };
}

single! { u8, u16, u32, u64 => |number: &_| Key::number(u64::from(*number), false) }
single! { i8, i16, i32, i64 => |number: &_| Key::number(i64::from(*number).unsigned_abs(), i64::from(*number) < 0) }
single! { usize, isize, u128, i128, IpAddr, Ipv4Addr, Ipv6Addr => |part: &_| Key::one(&ToString::to_string(part)) }

macro_rules! tuples {
    ($(($($name:ident $index:tt),+);)*) => { $(
        impl<'k, $($name: Part),+> From<($($name,)+)> for Key<'k> {
            fn from(parts: ($($name,)+)) -> Self {
                let mut text = Text::new();
                $( parts.$index.with_text(&mut |part| text.push_part(part)); )+
                text.finish(Shape::Text)
            }
        }
    )* };
}

tuples! {
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
}

/// Whether a part is its own escaped text.
fn is_plain(part: &str) -> bool {
    !part.is_empty() && !part.contains(['|', '%'])
}

fn unescape(part: &str) -> Cow<'_, str> {
    match part {
        "%" => Cow::Borrowed(""),
        _ if part.contains(ESCAPE as char) => Cow::Owned(part.replace("%7c", "|").replace("%25", "%")),
        _ => Cow::Borrowed(part),
    }
}

/// A key being written: in place while it is short, on the heap when it grows.
struct Text {
    len: usize,
    bytes: [u8; INLINE],
    heap: String,
    parts: usize,
}

impl Text {
    fn new() -> Self {
        Text { len: 0, bytes: [0; INLINE], heap: String::new(), parts: 0 }
    }

    fn push_part(&mut self, part: &str) {
        if self.parts > 0 {
            self.push_raw(&[SEPARATOR]);
        }
        self.parts += 1;
        if is_plain(part) {
            self.push_raw(part.as_bytes());
        } else if part.is_empty() {
            // Nothing else is a lone escape, so an empty part is neither GLOBAL nor another key.
            self.push_raw(&[ESCAPE]);
        } else {
            for piece in part.split_inclusive(['|', '%']) {
                match piece.as_bytes() {
                    [text @ .., SEPARATOR] => {
                        self.push_raw(text);
                        self.push_raw(b"%7c");
                    }
                    [text @ .., ESCAPE] => {
                        self.push_raw(text);
                        self.push_raw(b"%25");
                    }
                    text => self.push_raw(text),
                }
            }
        }
    }

    fn push_shard(&mut self, index: u32) {
        // A user's `%` is written `%25`, so `%s` cannot come from one.
        self.push_raw(b"%s");
        index.with_text(&mut |digits| self.push_raw(digits.as_bytes()));
    }

    fn push_raw(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if self.heap.is_empty() && end <= INLINE {
            self.bytes[self.len..end].copy_from_slice(bytes);
        } else {
            if self.heap.is_empty() {
                self.heap.push_str(str::from_utf8(&self.bytes[..self.len]).expect("whole str pieces"));
            }
            self.heap.push_str(str::from_utf8(bytes).expect("whole str pieces"));
        }
        self.len = end;
    }

    fn finish(self, shape: Shape) -> Key<'static> {
        let bytes = if self.heap.is_empty() {
            Bytes::Inline { len: self.len as u8, bytes: self.bytes }
        } else {
            Bytes::Heap(self.heap)
        };
        Key { shape, bytes }
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
        assert!(!seen.contains_key(&*Key::GLOBAL.to_text()));
        // What a store hashes tells them apart as well as the text does.
        let raw: std::collections::HashSet<_> = seen.values().map(Key::from_parts).collect();
        assert_eq!(raw.len(), seen.len());
    }

    #[test]
    fn long_keys_move_to_the_heap_whole() {
        for len in 0..200 {
            let part = "x".repeat(len);
            let key = Key::from((part.as_str(), "end"));
            let expected = if len == 0 { "%|end".to_owned() } else { format!("{part}|end") };
            assert_eq!(key.to_text(), expected);
            assert_eq!(key.clone().into_owned(), key);
            assert_eq!(key.borrow(), key);
        }
    }

    #[test]
    fn numbers_and_addresses_are_their_text() {
        for number in [0, 7, i64::MIN, i64::MAX, -1] {
            assert_eq!(Key::from(number).to_text(), number.to_string());
        }
        assert_eq!(Key::from(u64::MAX).to_text(), u64::MAX.to_string());
        assert_eq!(Key::from(IpAddr::from([127, 0, 0, 1])), Key::from("127.0.0.1"));
    }
}
