//! The token that clients have to show.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::failure::Failure;

const VARIABLE: &str = "TIDEGATE_TOKEN";
/// Shorter ones can be guessed.
const LEAST: usize = 16;

/// The token that clients have to show. What it shows of itself is nothing.
#[derive(Clone)]
pub(crate) struct Token(Arc<[u8]>);

impl Token {
    /// The token in a file or else in the environment, if there is one.
    pub(crate) fn find(file: Option<&Path>) -> Result<Option<Self>, Failure> {
        let (text, place) = match file {
            Some(path) => {
                let place = path.display().to_string();
                let read = std::fs::read_to_string(path);
                (read.map_err(|error| Failure::Start(format!("{place}: cannot be read: {error}")))?, place)
            }
            None => match std::env::var(VARIABLE) {
                Ok(text) => (text, VARIABLE.to_owned()),
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(error) => return Err(Failure::Start(format!("{VARIABLE}: {error}"))),
            },
        };
        let token = text.trim();
        if token.len() < LEAST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let expected = format!("expected at least {LEAST} letters, digits or signs, without spaces");
            return Err(Failure::Start(format!("{place}: the token is too short or has other characters: {expected}")));
        }
        Ok(Some(Token(token.as_bytes().into())))
    }

    /// The token itself, to show it to a server.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether that is the token. Takes as long whatever is wrong with it.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        let differences = self.0.iter().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differences) == 0 && self.0.len() == shown.len()
    }
}

/// The token that a request shows: `Authorization: Bearer TOKEN`.
fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

/// Whether a request with these headers may ask, where a token may have to be shown.
pub(crate) fn may_ask(token: Option<&Token>, headers: &HeaderMap) -> bool {
    token.is_none_or(|token| shown(headers).is_some_and(|shown| token.is(shown)))
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

#[cfg(test)]
impl Token {
    /// A token for tests.
    pub(crate) fn of(text: &str) -> Self {
        Token(text.as_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_the_token() {
        let token = Token(Arc::from(*b"0123456789abcdef"));
        assert!(token.is(b"0123456789abcdef"));
        for wrong in [&b""[..], b"0", b"0123456789abcdeF", b"0123456789abcde", b"0123456789abcdef0"] {
            assert!(!token.is(wrong));
        }
        assert!(!format!("{token:?}").contains("0123"));
    }
}
