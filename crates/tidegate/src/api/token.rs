//! The token that clients have to show.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Shorter ones can be guessed.
const LEAST: usize = 16;

/// The token that clients have to show. What it shows of itself is nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<[u8]>);

impl Token {
    /// How many bytes one has at most. A server has to read as much of what strangers say.
    pub const LONGEST: usize = 1 << 10;

    /// What a text has to be, to be one.
    pub const EXPECTED: &'static str = "expected 16 to 1024 letters, digits or signs, without spaces";

    /// The token in a text, with what is around it, such as the end of a line. None when it could be guessed, or cannot be
    /// shown in a header or over the Redis protocol.
    pub fn parse(text: &str) -> Option<Self> {
        let token = text.trim();
        let is_one =
            (LEAST..=Self::LONGEST).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_one.then(|| Token(token.as_bytes().into()))
    }

    /// The token itself, to show it to a server.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether that is the token. Takes as long whatever is wrong with it.
    pub fn is(&self, shown: &[u8]) -> bool {
        let differences = self.0.iter().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differences) == 0 && self.0.len() == shown.len()
    }

    /// Whether a request with these headers shows it: `Authorization: Bearer TOKEN`.
    pub fn is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().split_at_checked(7));
        shown.is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case(b"bearer ") && self.is(token))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_the_token() {
        let token = Token::parse(" 0123456789abcdef\n").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for wrong in [&b""[..], b"0", b"0123456789abcdeF", b"0123456789abcde", b"0123456789abcdef0"] {
            assert!(!token.is(wrong));
        }
        assert!(!format!("{token:?}").contains("0123"));
        for no_token in ["", "0123456789abcde", "0123456789 abcdef", "0123456789abcde\u{e9}"] {
            assert_eq!(Token::parse(no_token), None, "{no_token:?}");
        }
    }

    #[test]
    fn one_that_is_too_long_to_be_shown_is_none() {
        assert!(Token::parse(&"x".repeat(1_024)).is_some());
        assert_eq!(Token::parse(&"x".repeat(1_025)), None);
    }

    #[test]
    fn it_is_shown_as_a_bearer_shows_it() {
        let token = Token::parse("0123456789abcdef").unwrap();
        let shown =
            |value: &'static str| token.is_shown(&[(AUTHORIZATION, value.parse().unwrap())].into_iter().collect());
        assert!(shown("Bearer 0123456789abcdef") && shown("bearer 0123456789abcdef"));
        assert!(!shown("Basic 0123456789abcdef") && !shown("0123456789abcdef") && !shown("Bearer"));
        assert!(!token.is_shown(&HeaderMap::new()));
    }
}
