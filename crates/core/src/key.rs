//! Who is limited.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Between parts. Chosen because user names, addresses, paths and URLs seldom hold it, so that most keys need no
/// escaping and are borrowed as they are.
const SEPARATOR: u8 = b'|';
const ESCAPE: u8 = b'%';

/// How much fits in a key without a heap allocation, when it cannot be borrowed.
const INLINE: usize = 62;

/// Who is limited: one or more parts, or everybody ([`Key::GLOBAL`]).
///
/// Parts are escaped, so `("a|b", "c")` and `("a", "b|c")` differ, and no text a client sends can look like two
/// parts. Numbers and addresses are the same key as their text: `42` and `"42"` meet.
///
/// ```
/// use tidegate_core::Key;
///
/// assert_eq!(Key::from(42_u64), Key::from("42"));
/// assert_ne!(Key::from(("a|b", "c")), Key::from(("a", "b|c")));
/// assert_ne!(Key::from(""), Key::GLOBAL);
/// assert_eq!(Key::from(("tenant", 7_u64)).as_str(), "tenant|7");
/// ```
#[derive(Clone)]
pub struct Key<'a>(Repr<'a>);

#[derive(Clone)]
enum Repr<'a> {
    Borrowed(&'a str),
    Inline { len: u8, bytes: [u8; INLINE] },
    Heap(String),
}

impl Key<'static> {
    /// Everybody together: one budget for the whole limit.
    pub const GLOBAL: Key<'static> = Key(Repr::Borrowed(""));

    /// The key of part `index` of a limit whose one budget is cut into parts. No user's key can be equal to it.
    pub fn shard(index: u32) -> Self {
        let mut text = Text::new();
        text.push_shard(index);
        text.finish()
    }
}

impl<'a> Key<'a> {
    /// A key of these parts. One part is the same key as the part itself; no part at all is [`Key::GLOBAL`].
    pub fn from_parts<P: AsRef<str>>(parts: impl IntoIterator<Item = P>) -> Key<'static> {
        let mut text = Text::new();
        for part in parts {
            text.push_part(part.as_ref());
        }
        text.finish()
    }

    /// The key as one escaped text, different for different keys. Empty for [`Key::GLOBAL`] only.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Borrowed(text) => text,
            Repr::Inline { .. } => str::from_utf8(self.as_bytes()).expect("built from whole str parts"),
            Repr::Heap(text) => text,
        }
    }

    /// The bytes of [`Key::as_str`].
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Borrowed(text) => text.as_bytes(),
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Heap(text) => text.as_bytes(),
        }
    }

    /// The parts the key was made of, not escaped. None for [`Key::GLOBAL`].
    pub fn parts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let text = self.as_str();
        let parts = (!text.is_empty()).then(|| text.split(SEPARATOR as char));
        parts.into_iter().flatten().map(unescape)
    }

    /// The key of part `index` of this key's own budget. No user's key can be equal to it.
    pub fn with_shard(&self, index: u32) -> Key<'static> {
        let mut text = Text::new();
        text.push_raw(self.as_bytes());
        text.push_raw(&[SEPARATOR]);
        text.push_shard(index);
        text.finish()
    }

    /// This key, owning its text.
    pub fn into_owned(self) -> Key<'static> {
        match self.0 {
            Repr::Borrowed(text) => {
                let mut owned = Text::new();
                owned.push_raw(text.as_bytes());
                owned.finish()
            }
            Repr::Inline { len, bytes } => Key(Repr::Inline { len, bytes }),
            Repr::Heap(text) => Key(Repr::Heap(text)),
        }
    }

    /// A key of the same text that borrows from this one.
    #[inline]
    pub fn borrow(&self) -> Key<'_> {
        match &self.0 {
            Repr::Borrowed(text) => Key(Repr::Borrowed(text)),
            Repr::Inline { len, bytes } => Key(Repr::Inline { len: *len, bytes: *bytes }),
            Repr::Heap(text) => Key(Repr::Borrowed(text)),
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.as_str()).finish()
    }
}

impl<'a> From<&'a str> for Key<'a> {
    #[inline]
    fn from(part: &'a str) -> Self {
        if is_plain(part) { Key(Repr::Borrowed(part)) } else { Key::from_parts([part]) }
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
        if is_plain(&part) { Key(Repr::Heap(part)) } else { Key::from_parts([part]) }
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

/// Writes a number's decimal digits without the formatting machinery, which would cost more than the decision.
fn with_digits(mut number: u64, negative: bool, write: &mut dyn FnMut(&str)) {
    let mut digits = [0; 21];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    if negative {
        at -= 1;
        digits[at] = b'-';
    }
    write(str::from_utf8(&digits[at..]).expect("digits"));
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

numbers! { u16, i16; u32, i32; u64, i64; }

macro_rules! displayed {
    ($($part:ty),*) => { $(
        impl Part for $part {
            fn with_text(&self, write: &mut dyn FnMut(&str)) {
                write(&self.to_string());
            }
        }
    )* };
}

displayed! { u128, i128, IpAddr, Ipv4Addr, Ipv6Addr }

macro_rules! single {
    ($($part:ty),*) => { $(
        impl<'k> From<$part> for Key<'k> {
            fn from(part: $part) -> Self {
                Key::from((part,))
            }
        }
        impl<'k> From<&$part> for Key<'k> {
            fn from(part: &$part) -> Self {
                Key::from((part,))
            }
        }
    )* };
}

single! { u16, i16, u32, i32, u64, i64, u128, i128, IpAddr, Ipv4Addr, Ipv6Addr }

macro_rules! tuples {
    ($(($($name:ident $index:tt),+);)*) => { $(
        impl<'k, $($name: Part),+> From<($($name,)+)> for Key<'k> {
            fn from(parts: ($($name,)+)) -> Self {
                let mut text = Text::new();
                $( parts.$index.with_text(&mut |part| text.push_part(part)); )+
                text.finish()
            }
        }
    )* };
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
}

/// Whether a single part is its own escaped text.
#[inline]
fn is_plain(part: &str) -> bool {
    let (words, rest) = part.as_bytes().as_chunks::<8>();
    let special = |byte: &u8| *byte == SEPARATOR || *byte == ESCAPE;
    let in_word = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        has_byte(word, SEPARATOR) || has_byte(word, ESCAPE)
    };
    !part.is_empty() && !words.iter().any(in_word) && !rest.iter().any(special)
}

/// Whether one of the eight bytes of a word is `byte`: the classic test for a zero byte, after making it one.
#[inline]
fn has_byte(word: u64, byte: u8) -> bool {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    let zeroed = word ^ (ONES * byte as u64);
    zeroed.wrapping_sub(ONES) & !zeroed & HIGHS != 0
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

    fn finish(self) -> Key<'static> {
        if self.heap.is_empty() {
            Key(Repr::Inline { len: self.len as u8, bytes: self.bytes })
        } else {
            Key(Repr::Heap(self.heap))
        }
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
            assert!(seen.insert(Key::from(first).as_str().to_owned(), vec![first]).is_none(), "{first:?}");
            for second in tricky {
                let text = Key::from((first, second)).as_str().to_owned();
                assert!(seen.insert(text, vec![first, second]).is_none(), "{first:?} {second:?}");
            }
        }
        for (text, parts) in &seen {
            assert_eq!(Key::from_parts(parts).as_str(), text);
            let key = Key::from_parts(parts);
            assert_eq!(key.parts().collect::<Vec<_>>(), *parts);
        }
        for index in 0..100 {
            assert!(!seen.contains_key(Key::shard(index).as_str()));
            assert!(!seen.contains_key(Key::from("a").with_shard(index).as_str()));
        }
        assert!(!seen.contains_key(Key::GLOBAL.as_str()));
    }

    #[test]
    fn long_keys_move_to_the_heap_whole() {
        for len in 0..200 {
            let part = "x".repeat(len);
            let key = Key::from((part.as_str(), "end"));
            let expected = if len == 0 { "%|end".to_owned() } else { format!("{part}|end") };
            assert_eq!(key.as_str(), expected);
            assert_eq!(key.clone().into_owned(), key);
            assert_eq!(key.borrow(), key);
        }
    }

    #[test]
    fn numbers_and_addresses_are_their_text() {
        for number in [0, 7, i64::MIN, i64::MAX, -1] {
            assert_eq!(Key::from(number).as_str(), number.to_string());
        }
        assert_eq!(Key::from(u64::MAX).as_str(), u64::MAX.to_string());
        assert_eq!(Key::from(IpAddr::from([127, 0, 0, 1])), Key::from("127.0.0.1"));
    }
}
