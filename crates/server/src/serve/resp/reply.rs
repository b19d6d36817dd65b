//! Replies, as bytes.

use std::fmt::Display;
use std::io::Write;

/// The replies that were not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    bytes: Vec<u8>,
    /// Whether the client reads RESP3, which has maps and a null of its own.
    pub(crate) resp3: bool,
}

impl Replies {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets what was sent; the room stays, unless one reply took much more than usual.
    pub(crate) fn clear(&mut self, room: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(room);
    }

    /// Five integers: what every limit answers.
    #[inline]
    pub(crate) fn five(&mut self, integers: [i64; 5]) {
        self.bytes.extend_from_slice(b"*5\r\n");
        integers.into_iter().for_each(|integer| self.integer(integer));
    }

    #[inline]
    pub(crate) fn integer(&mut self, integer: i64) {
        self.line(b':', itoa::Buffer::new().format(integer).as_bytes());
    }

    pub(crate) fn ok(&mut self) {
        self.simple("OK");
    }

    /// A text without line ends.
    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    pub(crate) fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.head(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn null(&mut self) {
        self.bytes.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// The head of an array; so many replies follow.
    pub(crate) fn array(&mut self, count: usize) {
        self.head(b'*', count);
    }

    /// The head of a map; so many pairs of replies follow.
    pub(crate) fn map(&mut self, count: usize) {
        if self.resp3 { self.head(b'%', count) } else { self.array(count * 2) }
    }

    /// An error: a word in capitals, by which clients tell errors apart, and a text. Whatever that text quotes, it stays one
    /// line.
    pub(crate) fn error(&mut self, text: impl Display) {
        self.bytes.push(b'-');
        let start = self.bytes.len();
        write!(self.bytes, "{text}").expect("memory takes everything");
        self.bytes[start..].iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b' ');
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn head(&mut self, kind: u8, count: usize) {
        self.line(kind, itoa::Buffer::new().format(count).as_bytes());
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_protocols() {
        let written = |resp3| {
            let mut replies = Replies { resp3, ..Replies::default() };
            replies.five([1, -1, 0, i64::MAX, i64::MIN]);
            replies.map(1);
            replies.bulk("a\r\n");
            replies.null();
            replies.array(0);
            replies.error("ERR found '\r\n+OK'");
            replies.ok();
            String::from_utf8(replies.as_bytes().to_vec()).unwrap()
        };
        let five = "*5\r\n:1\r\n:-1\r\n:0\r\n:9223372036854775807\r\n:-9223372036854775808\r\n";
        let rest = "*0\r\n-ERR found '  +OK'\r\n+OK\r\n";
        assert_eq!(written(false), format!("{five}*2\r\n$3\r\na\r\n\r\n$-1\r\n{rest}"));
        assert_eq!(written(true), format!("{five}%1\r\n$3\r\na\r\n\r\n_\r\n{rest}"));
    }
}
