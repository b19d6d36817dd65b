//! Where the text of a field is put together.

/// The text of a field in the making: in place while it is no longer than usual, because a request waits for it.
pub(super) struct Line {
    len: usize,
    bytes: [u8; USUAL],
    /// All of it, once it is longer.
    longer: Vec<u8>,
}

/// Enough for two limits with names as people give them.
const USUAL: usize = 96;

impl Line {
    pub(super) fn new() -> Self {
        Line { len: 0, bytes: [0; USUAL], longer: Vec::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, text: &str) {
        let end = self.len + text.len();
        match self.bytes.get_mut(self.len..end) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                self.len = end;
            }
            None => self.push_longer(text),
        }
    }

    #[cold]
    fn push_longer(&mut self, text: &str) {
        if self.longer.is_empty() {
            self.longer.extend_from_slice(&self.bytes[..self.len]);
            // From now on nothing fits any more.
            self.len = USUAL + 1;
        }
        self.longer.extend_from_slice(text.as_bytes());
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.longer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_any_length_is_what_was_pushed() {
        for piece in ["a", "abcdefg", "0123456789", &"long".repeat(30)] {
            let (mut line, mut whole) = (Line::new(), String::new());
            for _ in 0..2 * USUAL {
                assert_eq!(line.as_bytes(), whole.as_bytes());
                line.push(piece);
                whole.push_str(piece);
            }
        }
    }
}
