//! Who may ask.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tidegate::api::Problem;

use crate::settings::{Access, Token};

impl Access {
    /// Whether a request with these headers may ask.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        match self {
            Access::Everybody => Ok(()),
            Access::Token(token) if shown(headers).is_some_and(|shown| token.is(shown)) => Ok(()),
            Access::Token(_) => Err(Problem::unauthorized()),
            Access::Nobody => Err(Problem::forbidden(
                "nobody may ask this Worker before it has a token: set the secret TIDEGATE_TOKEN, or TIDEGATE_OPEN=true for \
                 everybody",
            )),
        }
    }
}

impl Token {
    /// Whether that is the token. Takes as long whatever is wrong with it.
    fn is(&self, shown: &[u8]) -> bool {
        let differences = self.0.bytes().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differences) == 0 && self.0.len() == shown.len()
    }
}

/// The token that a request shows: `Authorization: Bearer TOKEN`.
fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}
