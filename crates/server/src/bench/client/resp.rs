//! The Redis protocol: `TG.LIMIT`, or `CL.THROTTLE`.

use std::io::Write as _;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::{Answer, Answers, Lost, Refusal, words};
use crate::bench::dial::Wire;
use crate::bench::plan::Question;

/// More than any answer here is long.
const MAX_REPLY: usize = 16 << 10;
/// How much is read at once.
const READ: usize = 4 << 10;

/// A connection.
pub(in crate::bench) struct Resp {
    wire: Wire,
    /// What stands before the length of the key, and behind the key.
    around: (Vec<u8>, Vec<u8>),
    /// The first number of an answer that allows.
    allowed: i64,
    out: Vec<u8>,
    read: Vec<u8>,
}

impl Resp {
    pub(super) async fn over(wire: Wire, question: &Question) -> Result<Self, Lost> {
        let cost = question.cost.to_string();
        let (around, allowed) = match &question.limit {
            Some(limit) => ((command(4, &["TG.LIMIT", limit]), command_end(&[&cost])), 1),
            None => ((command(6, &["CL.THROTTLE"]), command_end(&["15", "30", "60", &cost])), 0),
        };
        let mut resp = Resp { wire, around, allowed, out: Vec::new(), read: Vec::with_capacity(READ) };
        if let Some(token) = &question.token {
            let mut auth = command(2, &["AUTH"]);
            push(&mut auth, token.as_bytes());
            resp.wire.write_all(&auth).await.map_err(|error| Lost(error.to_string()))?;
            resp.authorized().await?;
        }
        Ok(resp)
    }

    pub(super) async fn ask(&mut self, keys: &[u64], answers: &mut Answers) -> Result<(), Lost> {
        self.out.clear();
        for key in keys {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(*key);
            self.out.extend_from_slice(&self.around.0);
            // Memory is never full.
            let _ = write!(self.out, "${}\r\nbench-{digits}\r\n", "bench-".len() + digits.len());
            self.out.extend_from_slice(&self.around.1);
        }
        self.wire.write_all(&self.out).await.map_err(|error| Lost(error.to_string()))?;
        let wanted = answers.len() + keys.len();
        while answers.len() < wanted {
            self.more().await?;
            // All that came with one reading came at one time.
            let now = Instant::now();
            let mut used = 0;
            while answers.len() < wanted
                && let Some((reply, length)) = parse(&self.read[used..])?
            {
                used += length;
                answers.push((self.answer(reply)?, now));
            }
            self.read.drain(..used);
        }
        // Nothing was asked that this could be the answer to.
        if self.read.is_empty() { Ok(()) } else { Err(Lost("more answers than questions".to_owned())) }
    }

    fn answer(&self, reply: Reply<'_>) -> Result<Answer, Lost> {
        match reply {
            Reply::First(number) if number == self.allowed => Ok(Answer::Allowed),
            Reply::First(0 | 1) => Ok(Answer::Denied),
            Reply::Error(text) => Ok(Answer::Refused(Box::new(refusal(text)))),
            Reply::First(_) | Reply::Text(_) => Err(Lost("an answer that is no decision".to_owned())),
        }
    }

    async fn authorized(&mut self) -> Result<(), Lost> {
        loop {
            self.more().await?;
            if let Some((reply, length)) = parse(&self.read)? {
                return match reply {
                    Reply::Text("OK") => {
                        self.read.drain(..length);
                        Ok(())
                    }
                    Reply::Error(text) => Err(Lost(format!("the token is refused: {}", words(text)))),
                    _ => Err(Lost("an answer to AUTH that is neither OK nor an error".to_owned())),
                };
            }
        }
    }

    async fn more(&mut self) -> Result<(), Lost> {
        match self.wire.read_buf(&mut self.read).await {
            Ok(0) => Err(Lost("the server has closed the connection".to_owned())),
            Ok(_) => Ok(()),
            Err(error) => Err(Lost(error.to_string())),
        }
    }
}

/// The begin of a command of so many parts.
fn command(parts: usize, first: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{parts}\r\n").into_bytes();
    first.iter().for_each(|part| push(&mut bytes, part.as_bytes()));
    bytes
}

fn command_end(last: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    last.iter().for_each(|part| push(&mut bytes, part.as_bytes()));
    bytes
}

fn push(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
    bytes.extend_from_slice(part);
    bytes.extend_from_slice(b"\r\n");
}

/// What the answers here are made of.
#[derive(Debug, PartialEq, Eq)]
enum Reply<'a> {
    /// A list of numbers, of which the first one counts.
    First(i64),
    Text(&'a str),
    Error(&'a str),
}

/// The first reply and its length, when it is there as a whole.
fn parse(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, Lost> {
    let strange = || Lost("what comes back is not the Redis protocol".to_owned());
    let line = |from: usize| {
        let found = bytes[from..].windows(2).position(|two| two == b"\r\n");
        let text = |end: usize| std::str::from_utf8(&bytes[from..from + end]).map(|text| (text, from + end + 2));
        found.map(text).transpose().map_err(|_| strange())
    };
    let whole = || match bytes.len() {
        0..MAX_REPLY => Ok(None),
        _ => Err(strange()),
    };
    if bytes.first().is_some_and(|first| !b"*+-".contains(first)) {
        return Err(strange());
    }
    let Some((head, mut at)) = line(0)? else { return whole() };
    if let Some(text) = head.strip_prefix('+') {
        return Ok(Some((Reply::Text(text), at)));
    }
    if let Some(text) = head.strip_prefix('-') {
        return Ok(Some((Reply::Error(text), at)));
    }
    let count = head[1..].parse::<u8>().ok().filter(|count| *count > 0).ok_or_else(strange)?;
    let mut first = None;
    for _ in 0..count {
        let Some((item, next)) = line(at)? else { return whole() };
        let number = item.strip_prefix(':').and_then(|number| number.parse().ok()).ok_or_else(strange)?;
        first.get_or_insert(number);
        at = next;
    }
    Ok(first.map(|first| (Reply::First(first), at)))
}

fn refusal(text: &str) -> Refusal {
    let (kind, message) = text.split_once(' ').unwrap_or((text, text));
    let passing = !["ERR", "NOAUTH", "NOPERM", "WRONGPASS"].contains(&kind);
    Refusal { kind: words(kind), message: words(message), passing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_when_it_is_there_as_a_whole() {
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
    fn what_is_no_reply_ends_the_connection() {
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
