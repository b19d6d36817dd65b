//! The reply buffer, and errors of the Redis protocol, as bytes.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io::Write;

/// A buffer of replies that are not sent yet.
#[derive(Debug, Default)]
pub(crate) struct ReplyBuffer {
    bytes: Vec<u8>,
    /// Whether the client reads RESP3, which has maps and its own null.
    pub(crate) resp3: bool,
}

impl ReplyBuffer {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns how many bytes are allocated.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Clears the replies once they are sent, and keeps at most `capacity` bytes allocated.
    pub(crate) fn clear(&mut self, capacity: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(capacity);
    }

    /// Writes the five integers of every decision.
    #[inline]
    pub(crate) fn five_integers(&mut self, integers: [i64; 5]) {
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

    /// Writes a string without line ends.
    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    pub(crate) fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.header(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn null(&mut self) {
        self.bytes.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Writes the header of an array; `count` replies follow.
    pub(crate) fn array(&mut self, count: usize) {
        self.header(b'*', count);
    }

    /// Writes the header of a map; `count` pairs of replies follow.
    pub(crate) fn map(&mut self, count: usize) {
        if self.resp3 { self.header(b'%', count) } else { self.array(count * 2) }
    }

    /// Writes an error: a code in capitals, by which clients tell errors apart, and a message. Control characters in it are
    /// replaced, so that it stays one line.
    pub(crate) fn error(&mut self, text: impl Display) {
        self.bytes.push(b'-');
        let start = self.bytes.len();
        write!(self.bytes, "{text}").expect("a vector takes all bytes");
        self.bytes[start..].iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b' ');
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn header(&mut self, kind: u8, count: usize) {
        self.line(kind, itoa::Buffer::new().format(count).as_bytes());
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// The most bytes of client input that an error quotes.
const MAX_QUOTED: usize = 128;

/// The error of a command: a code in capitals and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandError(Cow<'static, str>);

impl CommandError {
    pub(crate) fn new(text: String) -> Self {
        CommandError(Cow::Owned(text))
    }
}

impl From<&'static str> for CommandError {
    fn from(text: &'static str) -> Self {
        CommandError(Cow::Borrowed(text))
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Quotes client input, or the beginning of it.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    format!("'{}'", String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_QUOTED)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_match_resp2_and_resp3() {
        let written = |resp3| {
            let mut replies = ReplyBuffer { resp3, ..ReplyBuffer::default() };
            replies.five_integers([1, -1, 0, i64::MAX, i64::MIN]);
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
