//! The text of a key, escaped so that parts never run together.

use std::borrow::Cow;

use super::part::KeyPart;
use super::{Encoding, INLINE_LEN, Key, KeyBytes};

/// The separator between the parts of a key's text.
pub(super) const SEPARATOR: u8 = b'|';
const ESCAPE: u8 = b'%';
/// The mark before a reserved key.
pub(super) const RESERVED_MARK: &str = "%a";
/// The mark before a fallback key.
pub(super) const FALLBACK_MARK: &str = "%c";

/// Returns whether a part equals its escaped text.
pub(super) fn is_plain(part: &str) -> bool {
    !part.is_empty() && !part.contains(['|', '%'])
}

pub(super) fn unescape(part: &str) -> Cow<'_, str> {
    match part {
        "%" => Cow::Borrowed(""),
        _ if part.contains(ESCAPE as char) => Cow::Owned(part.replace("%7c", "|").replace("%25", "%")),
        _ => Cow::Borrowed(part),
    }
}

/// Returns whether a piece of a text, between two separators, is an escaped part.
pub(super) fn is_escaped(piece: &str) -> bool {
    let mut after_escapes = piece.split(ESCAPE as char).skip(1);
    piece == "%" || (!piece.is_empty() && after_escapes.all(|after| after.starts_with("7c") || after.starts_with("25")))
}

/// Returns whether a piece of a text, between two separators, is a mark. A client cannot send one: its `%` is written
/// `%25`, and its `|` is written `%7c`.
pub(super) fn is_mark(piece: &str) -> bool {
    is_leading_mark(piece) || is_shard(piece)
}

/// Returns whether a piece of a text is the mark of a reserved or fallback key, which leads the key.
pub(super) fn is_leading_mark(piece: &str) -> bool {
    piece == RESERVED_MARK || piece == FALLBACK_MARK
}

/// Returns whether a piece of a text is the mark of a shard.
pub(super) fn is_shard(piece: &str) -> bool {
    let index = piece.strip_prefix("%s");
    index.is_some_and(|index| index.parse::<u32>().is_ok_and(|number| number.to_string() == index))
}

/// A builder of a key's text: inline while it is short, on the heap when it grows.
pub(super) struct KeyText {
    len: usize,
    bytes: [u8; INLINE_LEN],
    heap: String,
    parts: usize,
}

impl KeyText {
    pub(super) fn new() -> Self {
        KeyText { len: 0, bytes: [0; INLINE_LEN], heap: String::new(), parts: 0 }
    }

    pub(super) fn push_part(&mut self, part: &str) {
        if self.parts > 0 {
            self.push_raw(&[SEPARATOR]);
        }
        self.parts += 1;
        self.push_escaped(part);
    }

    /// Appends a key as a piece of a longer one.
    pub(super) fn push_key(&mut self, key: &Key<'_>) {
        match key.encoding {
            Encoding::SinglePart => self.push_escaped(key.as_str()),
            Encoding::Escaped => self.push_raw(key.as_bytes()),
        }
    }

    pub(super) fn push_escaped(&mut self, part: &str) {
        if is_plain(part) {
            self.push_raw(part.as_bytes());
        } else if part.is_empty() {
            // Only an empty part is a lone escape, so it equals neither GLOBAL nor another key.
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

    pub(super) fn push_shard(&mut self, index: u32) {
        // A client's `%` is written `%25`, so `%s` cannot come from one.
        self.push_raw(b"%s");
        index.with_text(&mut |digits| self.push_raw(digits.as_bytes()));
    }

    pub(super) fn push_raw(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if self.heap.is_empty() && end <= INLINE_LEN {
            self.bytes[self.len..end].copy_from_slice(bytes);
        } else {
            if self.heap.is_empty() {
                self.heap.push_str(str::from_utf8(&self.bytes[..self.len]).expect("whole str pieces"));
            }
            self.heap.push_str(str::from_utf8(bytes).expect("whole str pieces"));
        }
        self.len = end;
    }

    pub(super) fn finish(self, encoding: Encoding) -> Key<'static> {
        let bytes = if self.heap.is_empty() {
            KeyBytes::Inline { len: self.len as u8, bytes: self.bytes }
        } else {
            KeyBytes::Heap(self.heap)
        };
        Key { encoding, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_move_to_the_heap_unchanged() {
        for len in 0..200 {
            let part = "x".repeat(len);
            let key = Key::from((part.as_str(), "end"));
            let expected = if len == 0 { "%|end".to_owned() } else { format!("{part}|end") };
            assert_eq!(key.to_text(), expected);
            assert_eq!(key.clone().into_owned(), key);
            assert_eq!(key.borrow(), key);
        }
    }
}
