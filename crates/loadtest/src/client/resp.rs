//! A client of the Redis protocol: `TG.LIMIT`, or `CL.THROTTLE` without a named limit.

use std::io::Write as _;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::{ConnectionLost, RequestError, Responses, Verdict, excerpt};
use crate::run::RequestTemplate;
use crate::target::IoStream;

/// A bound above every reply to these commands.
const MAX_REPLY: usize = 16 << 10;
/// The size of one read.
const READ_SIZE: usize = 4 << 10;

/// A connection with the Redis protocol.
pub(crate) struct RespConnection {
    stream: IoStream,
    /// The parts of the command before the length of the key and after the key.
    command_parts: (Vec<u8>, Vec<u8>),
    /// The first integer of a reply that allows.
    allowed: i64,
    out: Vec<u8>,
    read: Vec<u8>,
}

impl RespConnection {
    pub(super) async fn from_stream(stream: IoStream, template: &RequestTemplate) -> Result<Self, ConnectionLost> {
        let cost = template.cost.to_string();
        let (command_parts, allowed) = match &template.limit {
            Some(limit) => ((command_start(4, &["TG.LIMIT", limit]), command_end(&[&cost])), 1),
            None => ((command_start(6, &["CL.THROTTLE"]), command_end(&["15", "30", "60", &cost])), 0),
        };
        let mut resp =
            RespConnection { stream, command_parts, allowed, out: Vec::new(), read: Vec::with_capacity(READ_SIZE) };
        if let Some(token) = &template.token {
            let mut auth = command_start(2, &["AUTH"]);
            push_bulk_string(&mut auth, token.as_bytes());
            resp.stream.write_all(&auth).await.map_err(|error| ConnectionLost(error.to_string()))?;
            resp.read_auth_reply().await?;
        }
        Ok(resp)
    }

    pub(super) async fn send(&mut self, keys: &[u64], responses: &mut Responses) -> Result<(), ConnectionLost> {
        self.out.clear();
        for key in keys {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(*key);
            self.out.extend_from_slice(&self.command_parts.0);
            // Memory is never full.
            let _ = write!(self.out, "${}\r\nbench-{digits}\r\n", "bench-".len() + digits.len());
            self.out.extend_from_slice(&self.command_parts.1);
        }
        self.stream.write_all(&self.out).await.map_err(|error| ConnectionLost(error.to_string()))?;
        let wanted = responses.len() + keys.len();
        while responses.len() < wanted {
            self.read_more().await?;
            // The replies of one read arrived at the same time.
            let now = Instant::now();
            let mut used = 0;
            while responses.len() < wanted
                && let Some((reply, length)) = parse(&self.read[used..])?
            {
                used += length;
                responses.push((self.verdict(reply)?, now));
            }
            self.read.drain(..used);
        }
        // Bytes beyond the last reply answer no request.
        if self.read.is_empty() { Ok(()) } else { Err(ConnectionLost("more responses than questions".to_owned())) }
    }

    fn verdict(&self, reply: Reply<'_>) -> Result<Verdict, ConnectionLost> {
        match reply {
            Reply::First(number) if number == self.allowed => Ok(Verdict::Allowed),
            Reply::First(0 | 1) => Ok(Verdict::Denied),
            Reply::Error(text) => Ok(Verdict::Failed(Box::new(request_error(text)))),
            Reply::First(_) | Reply::Text(_) => Err(ConnectionLost("an answer that is no decision".to_owned())),
        }
    }

    async fn read_auth_reply(&mut self) -> Result<(), ConnectionLost> {
        loop {
            self.read_more().await?;
            if let Some((reply, length)) = parse(&self.read)? {
                return match reply {
                    Reply::Text("OK") => {
                        self.read.drain(..length);
                        Ok(())
                    }
                    Reply::Error(text) => Err(ConnectionLost(format!("the token is refused: {}", excerpt(text)))),
                    _ => Err(ConnectionLost("an answer to AUTH that is neither OK nor an error".to_owned())),
                };
            }
        }
    }

    async fn read_more(&mut self) -> Result<(), ConnectionLost> {
        match self.stream.read_buf(&mut self.read).await {
            Ok(0) => Err(ConnectionLost("the server has closed the connection".to_owned())),
            Ok(_) => Ok(()),
            Err(error) => Err(ConnectionLost(error.to_string())),
        }
    }
}

/// Returns the beginning of a command of `parts` words.
fn command_start(parts: usize, first: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{parts}\r\n").into_bytes();
    first.iter().for_each(|part| push_bulk_string(&mut bytes, part.as_bytes()));
    bytes
}

fn command_end(last: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    last.iter().for_each(|part| push_bulk_string(&mut bytes, part.as_bytes()));
    bytes
}

fn push_bulk_string(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
    bytes.extend_from_slice(part);
    bytes.extend_from_slice(b"\r\n");
}

/// The replies that these commands get.
#[derive(Debug, PartialEq, Eq)]
enum Reply<'a> {
    /// The first of an array of integers.
    First(i64),
    Text(&'a str),
    Error(&'a str),
}

/// Returns the first reply and its length once it is complete.
fn parse(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, ConnectionLost> {
    let not_resp = || ConnectionLost("what comes back is not the Redis protocol".to_owned());
    let line = |from: usize| {
        let found = bytes[from..].windows(2).position(|two| two == b"\r\n");
        let text = |end: usize| std::str::from_utf8(&bytes[from..from + end]).map(|text| (text, from + end + 2));
        found.map(text).transpose().map_err(|_| not_resp())
    };
    let whole = || match bytes.len() {
        0..MAX_REPLY => Ok(None),
        _ => Err(not_resp()),
    };
    if bytes.first().is_some_and(|first| !b"*+-".contains(first)) {
        return Err(not_resp());
    }
    let Some((head, mut at)) = line(0)? else { return whole() };
    if let Some(text) = head.strip_prefix('+') {
        return Ok(Some((Reply::Text(text), at)));
    }
    if let Some(text) = head.strip_prefix('-') {
        return Ok(Some((Reply::Error(text), at)));
    }
    let count = head[1..].parse::<u8>().ok().filter(|count| *count > 0).ok_or_else(not_resp)?;
    let mut first = None;
    for _ in 0..count {
        let Some((item, next)) = line(at)? else { return whole() };
        let number = item.strip_prefix(':').and_then(|number| number.parse().ok()).ok_or_else(not_resp)?;
        first.get_or_insert(number);
        at = next;
    }
    Ok(first.map(|first| (Reply::First(first), at)))
}

fn request_error(text: &str) -> RequestError {
    let (kind, message) = text.split_once(' ').unwrap_or((text, text));
    let is_transient = !["ERR", "NOAUTH", "NOPERM", "WRONGPASS"].contains(&kind);
    RequestError { kind: excerpt(kind), message: excerpt(message), is_transient }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_reply_is_not_read() {
        let whole = b"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(parse(whole), Ok(Some((Reply::First(0), whole.len()))));
        assert_eq!(parse(&[whole, &whole[..3]].concat()), Ok(Some((Reply::First(0), whole.len()))));
        assert_eq!(parse(b"+OK\r\n"), Ok(Some((Reply::Text("OK"), 5))));
        assert_eq!(parse(b"-ERR no\r\n:1"), Ok(Some((Reply::Error("ERR no"), 9))));
    }

    #[test]
    fn a_malformed_reply_is_an_error() {
        let long = [&b"+"[..], &[b'x'; MAX_REPLY]].concat();
        let texts: [&[u8]; 8] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"\x15\x03\x03\x00\x02",
            b"*x\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"*1\r\n+a\r\n",
            b"*1\r\n:x\r\n",
            &long,
        ];
        for text in texts {
            assert!(parse(text).is_err(), "{}", text.escape_ascii());
        }
    }
}
