//! Parses commands of the Redis protocol in place, without I/O and without a copy.
//!
//! A command is an array of bulk strings (`*1\r\n$4\r\nPING\r\n`), as programs send it, or a line of words, as people
//! type it. Equal bytes give equal commands, and then an equal error, for every split into reads.

use std::ops::Deref;

/// The most words of any command.
pub(crate) const MAX_ARGUMENTS: usize = 64;
/// The most bytes of any command, with its framing. So many bytes are always a whole command or an error.
pub(crate) const MAX_COMMAND: usize = 32 << 10;
/// The most bytes of an inline command.
const MAX_LINE: usize = 8 << 10;
/// The most digits of a length. A longer one would be refused anyway.
const MAX_DIGITS: usize = 10;

/// The bounds of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The most words.
    arguments: usize,
    /// The most bytes of a word.
    pub(super) word: usize,
}

impl Bounds {
    pub(crate) const AUTHENTICATED: Bounds = Bounds { arguments: MAX_ARGUMENTS, word: 8 << 10 };
    /// For a client that has not shown the token: enough to do so.
    pub(crate) const UNAUTHENTICATED: Bounds = Bounds { arguments: 10, word: 1 << 10 };
}

/// The words of one command.
pub(crate) struct Arguments<'a> {
    words: [&'a [u8]; MAX_ARGUMENTS],
    count: usize,
}

impl<'a> Arguments<'a> {
    pub(crate) const fn new() -> Self {
        Arguments { words: [b""; MAX_ARGUMENTS], count: 0 }
    }

    fn push(&mut self, word: &'a [u8], bounds: Bounds) -> Result<(), ProtocolError> {
        if self.count == bounds.arguments {
            return Err(ProtocolError::Count);
        }
        if word.len() > bounds.word {
            return Err(ProtocolError::Length);
        }
        self.words[self.count] = word;
        self.count += 1;
        Ok(())
    }
}

impl<'a> Deref for Arguments<'a> {
    type Target = [&'a [u8]];

    #[inline]
    fn deref(&self) -> &[&'a [u8]] {
        &self.words[..self.count]
    }
}

/// Malformed bytes. The start of the next command is unknown, so the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("invalid multibulk length")]
    Count,
    #[error("invalid bulk length")]
    Length,
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NotBulk(u8),
    #[error("expected CRLF behind a bulk string")]
    NoLineEnd,
    #[error("too big inline request")]
    LongLine,
    #[error("too big request")]
    Large,
    #[error("unbalanced quotes in request")]
    Quotes,
    #[error("backslash in quotes of an inline request")]
    Backslash,
}

/// Parses the first command in `input`, and returns how many bytes it takes; `None` if it is incomplete. A command without
/// words gets no reply.
#[inline]
pub(crate) fn parse<'a>(
    input: &'a [u8],
    bounds: Bounds,
    arguments: &mut Arguments<'a>,
) -> Result<Option<usize>, ProtocolError> {
    arguments.count = 0;
    match input.first() {
        None => Ok(None),
        Some(b'*') => {
            // Bytes beyond the bound must not matter, whether they were read already or not.
            let within = &input[..input.len().min(MAX_COMMAND)];
            match array(within, bounds, arguments)? {
                None if input.len() >= MAX_COMMAND => Err(ProtocolError::Large),
                used => Ok(used),
            }
        }
        Some(_) => {
            let within = &input[..input.len().min(MAX_LINE)];
            match within.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    line(&within[..end], bounds, arguments)?;
                    Ok(Some(end + 1))
                }
                None if input.len() >= MAX_LINE => Err(ProtocolError::LongLine),
                None => Ok(None),
            }
        }
    }
}

fn array<'a>(input: &'a [u8], bounds: Bounds, arguments: &mut Arguments<'a>) -> Result<Option<usize>, ProtocolError> {
    let Some((count, mut at)) = number(input, 1, ProtocolError::Count)? else { return Ok(None) };
    if count > bounds.arguments as i64 {
        return Err(ProtocolError::Count);
    }
    for _ in 0..count {
        match input.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::NotBulk(*other)),
        }
        let Some((length, start)) = number(input, at + 1, ProtocolError::Length)? else { return Ok(None) };
        let length = usize::try_from(length).ok().filter(|length| *length <= bounds.word);
        let end = start + length.ok_or(ProtocolError::Length)?;
        match (input.get(end), input.get(end + 1)) {
            (Some(b'\r'), Some(b'\n')) => {}
            (None, _) | (Some(b'\r'), None) => return Ok(None),
            _ => return Err(ProtocolError::NoLineEnd),
        }
        arguments.push(&input[start..end], bounds)?;
        at = end + 2;
    }
    Ok(Some(at))
}

/// Parses the number at `at`, and returns where the next line begins.
#[inline]
fn number(input: &[u8], at: usize, wrong: ProtocolError) -> Result<Option<(i64, usize)>, ProtocolError> {
    let (negative, first) = if input.get(at) == Some(&b'-') { (true, at + 1) } else { (false, at) };
    let (mut value, mut next) = (0, first);
    while let Some(byte) = input.get(next) {
        match byte {
            b'0'..=b'9' if next - first < MAX_DIGITS => value = value * 10 + i64::from(byte - b'0'),
            b'\r' if next > first => {
                return match input.get(next + 1) {
                    None => Ok(None),
                    Some(b'\n') => Ok(Some((if negative { -value } else { value }, next + 2))),
                    Some(_) => Err(wrong),
                };
            }
            _ => return Err(wrong),
        }
        next += 1;
    }
    Ok(None)
}

/// Parses the words of a line; quotes keep a word with spaces together.
fn line<'a>(mut rest: &'a [u8], bounds: Bounds, arguments: &mut Arguments<'a>) -> Result<(), ProtocolError> {
    loop {
        rest = rest.trim_ascii_start();
        let word = match rest.first() {
            None => return Ok(()),
            Some(quote @ (b'"' | b'\'')) => {
                let length = rest[1..].iter().position(|byte| byte == quote).ok_or(ProtocolError::Quotes)?;
                let (word, after) = (&rest[1..=length], &rest[length + 2..]);
                if word.contains(&b'\\') {
                    return Err(ProtocolError::Backslash);
                }
                if after.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                    return Err(ProtocolError::Quotes);
                }
                rest = after;
                word
            }
            Some(_) => {
                let length = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                let (word, after) = rest.split_at(length);
                rest = after;
                word
            }
        };
        arguments.push(word, bounds)?;
    }
}

#[cfg(test)]
mod tests {
    use tidegate_testkit::Random;

    use super::*;

    type Commands = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

    /// The commands in `input`, if it is read up to each of `cuts` and then to the end.
    fn commands(input: &[u8], bounds: Bounds, cuts: &[usize]) -> Commands {
        let (mut found, mut at) = (Vec::new(), 0);
        for end in cuts.iter().copied().chain([input.len()]) {
            let mut arguments = Arguments::new();
            loop {
                match parse(&input[at..end], bounds, &mut arguments) {
                    Ok(Some(used)) => at += used,
                    Ok(None) => break,
                    Err(error) => return (found, Some(error)),
                }
                found.push(arguments.iter().map(|word| word.to_vec()).collect());
            }
        }
        (found, None)
    }

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    const PIPELINE: &[u8] =
        b"*1\r\n$4\r\nPING\r\n*6\r\n$11\r\nCL.THROTTLE\r\n$3\r\na\r\n\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n\
        $1\r\n1\r\n*0\r\n*-1\r\n\r\nping\r\n  ECHO  \"a b\" '' \tx\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\n";

    #[test]
    fn a_pipeline_parses_the_same_however_it_is_split() {
        let whole = commands(PIPELINE, Bounds::AUTHENTICATED, &[]);
        let expected = [
            words(&["PING"]),
            words(&["CL.THROTTLE", "a\r\n", "15", "30", "60", "1"]),
            words(&[]),
            words(&[]),
            words(&[]),
            words(&["ping"]),
            words(&["ECHO", "a b", "", "x"]),
            words(&["ECHO", ""]),
        ];
        assert_eq!(whole, (expected.to_vec(), None));
        for cut in 0..PIPELINE.len() {
            assert_eq!(commands(PIPELINE, Bounds::AUTHENTICATED, &[cut]), whole, "cut at {cut}");
        }
        let every: Vec<_> = (0..PIPELINE.len()).collect();
        assert_eq!(commands(PIPELINE, Bounds::AUTHENTICATED, &every), whole);
    }

    #[test]
    fn malformed_commands_are_protocol_errors() {
        use ProtocolError::*;
        let cases: [(&[u8], ProtocolError); 19] = [
            (b"*\r\n", Count),
            (b"*x\r\n", Count),
            (b"*1x", Count),
            (b"*1\rx", Count),
            (b"*65\r\n", Count),
            (b"*12345678901", Count),
            (b"*--1\r\n", Count),
            (b"*1\r\nPING\r\n", NotBulk(b'P')),
            (b"*1\r\n*1\r\n", NotBulk(b'*')),
            (b"*1\r\n$\r\n", Length),
            (b"*1\r\n$-1\r\n", Length),
            (b"*1\r\n$8193\r\n", Length),
            (b"*1\r\n$99999999999", Length),
            (b"*1\r\n$1\r\nab", NoLineEnd),
            (b"*1\r\n$1\r\na\rb", NoLineEnd),
            (b"echo \"a\n", Quotes),
            (b"echo 'a'b\n", Quotes),
            (b"echo \"\\x00\"\n", Backslash),
            (b"*1\r\n$0\r\n\n\n", NoLineEnd),
        ];
        for (input, error) in cases {
            let every: Vec<_> = (0..input.len()).collect();
            for cuts in [&every[..], &[]] {
                let found = commands(input, Bounds::AUTHENTICATED, cuts);
                assert_eq!(found, (vec![], Some(error)), "{}", input.escape_ascii());
            }
        }
        assert_eq!(NotBulk(b'\n').to_string(), "expected '$', got '\\n'");
    }

    #[test]
    fn commands_beyond_the_bounds_are_refused() {
        let array = |count: usize, length: usize| {
            let word = [format!("${length}\r\n").as_bytes(), &vec![b'x'; length], b"\r\n"].concat();
            [format!("*{count}\r\n").into_bytes(), word.repeat(count)].concat()
        };
        let fits = |input: &[u8], bounds| commands(input, bounds, &[]).1;
        assert_eq!(fits(&array(64, 1), Bounds::AUTHENTICATED), None);
        assert_eq!(fits(&array(65, 1), Bounds::AUTHENTICATED), Some(ProtocolError::Count));
        assert_eq!(fits(&array(1, 8 << 10), Bounds::AUTHENTICATED), None);
        assert_eq!(fits(&array(1, (8 << 10) + 1), Bounds::AUTHENTICATED), Some(ProtocolError::Length));
        assert_eq!(fits(&array(3, 8 << 10), Bounds::AUTHENTICATED), None);
        assert_eq!(fits(&array(4, 8 << 10), Bounds::AUTHENTICATED), Some(ProtocolError::Large));
        assert_eq!(fits(&array(10, 1 << 10), Bounds::UNAUTHENTICATED), None);
        assert_eq!(fits(&array(11, 1), Bounds::UNAUTHENTICATED), Some(ProtocolError::Count));
        assert_eq!(fits(&array(1, (1 << 10) + 1), Bounds::UNAUTHENTICATED), Some(ProtocolError::Length));

        let line = |length: usize| [vec![b'x'; length], b"\n".to_vec()].concat();
        assert_eq!(fits(&line(MAX_LINE - 1), Bounds::AUTHENTICATED), None);
        assert_eq!(fits(&line(MAX_LINE), Bounds::AUTHENTICATED), Some(ProtocolError::LongLine));
        assert_eq!(fits(&line(2_000), Bounds::UNAUTHENTICATED), Some(ProtocolError::Length));
        assert_eq!(fits(&[b"x ".repeat(64), b"\n".to_vec()].concat(), Bounds::AUTHENTICATED), None);
        assert_eq!(
            fits(&[b"x ".repeat(65), b"\n".to_vec()].concat(), Bounds::AUTHENTICATED),
            Some(ProtocolError::Count)
        );
    }

    #[test]
    fn random_bytes_are_commands_within_bounds_or_an_error() {
        let pieces: [&[u8]; 14] = [
            b"*",
            b"$",
            b"\r\n",
            b"\n",
            b"1",
            b"3",
            b"-",
            b"PING",
            b" ",
            b"\"",
            b"'",
            b"\\",
            b"*1\r\n$4\r\nPING\r\n",
            b"\xff\0",
        ];
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let input: Vec<u8> = (0..random.below(30)).flat_map(|_| random.pick(&pieces).iter().copied()).collect();
            let cuts: Vec<_> = (0..input.len()).collect();
            let whole = commands(&input, Bounds::UNAUTHENTICATED, &[]);
            assert_eq!(commands(&input, Bounds::UNAUTHENTICATED, &cuts), whole, "{}", input.escape_ascii());
            for command in &whole.0 {
                assert!(command.len() <= Bounds::UNAUTHENTICATED.arguments);
                assert!(command.iter().all(|word| word.len() <= Bounds::UNAUTHENTICATED.word));
            }
        }
    }
}
