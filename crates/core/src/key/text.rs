//! The text of a key, escaped so that parts never run together.

use std::borrow::Cow;

use super::part::Part;
use super::{Bytes, INLINE, Key, Shape};

/// Between the parts of a key's text.
pub(super) const SEPARATOR: u8 = b'|';
const ESCAPE: u8 = b'%';
/// Before a key that is set apart.
pub(super) const APART: &str = "%a";
/// Before a key that stands in for one that is missing.
pub(super) const STAND_IN: &str = "%c";

/// Whether a part is its own escaped text.
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

/// Whether a piece of a text between two separators is what a part is written as.
pub(super) fn is_escaped(piece: &str) -> bool {
    let mut after_escapes = piece.split(ESCAPE as char).skip(1);
    piece == "%" || (!piece.is_empty() && after_escapes.all(|after| after.starts_with("7c") || after.starts_with("25")))
}

/// Whether a piece of a text between two separators is a mark of this crate's: a user's `%` is written `%25`, and its `|`
/// is written `%7c`.
pub(super) fn is_mark(piece: &str) -> bool {
    is_before(piece) || is_shard(piece)
}

/// Whether a piece of a text is a mark before the key that it is about.
pub(super) fn is_before(piece: &str) -> bool {
    piece == APART || piece == STAND_IN
}

/// Whether a piece of a text says which part of a budget is meant.
pub(super) fn is_shard(piece: &str) -> bool {
    let index = piece.strip_prefix("%s");
    index.is_some_and(|index| index.parse::<u32>().is_ok_and(|number| number.to_string() == index))
}

/// A key being written: in place while it is short, on the heap when it grows.
pub(super) struct Text {
    len: usize,
    bytes: [u8; INLINE],
    heap: String,
    parts: usize,
}

impl Text {
    pub(super) fn new() -> Self {
        Text { len: 0, bytes: [0; INLINE], heap: String::new(), parts: 0 }
    }

    pub(super) fn push_part(&mut self, part: &str) {
        if self.parts > 0 {
            self.push_raw(&[SEPARATOR]);
        }
        self.parts += 1;
        self.push_escaped(part);
    }

    /// All of a key, as it is in the text of a longer one.
    pub(super) fn push_key(&mut self, key: &Key<'_>) {
        match key.shape {
            Shape::One => self.push_escaped(key.as_str()),
            Shape::Text => self.push_raw(key.as_bytes()),
        }
    }

    pub(super) fn push_escaped(&mut self, part: &str) {
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

    pub(super) fn push_shard(&mut self, index: u32) {
        // A user's `%` is written `%25`, so `%s` cannot come from one.
        self.push_raw(b"%s");
        index.with_text(&mut |digits| self.push_raw(digits.as_bytes()));
    }

    pub(super) fn push_raw(&mut self, bytes: &[u8]) {
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

    pub(super) fn finish(self, shape: Shape) -> Key<'static> {
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
}
