//! The token that clients have to show: where it is found.

use std::path::Path;

use http::HeaderMap;
pub(crate) use tidegate::api::Token;

use crate::failure::Failure;

const VARIABLE: &str = "TIDEGATE_TOKEN";

/// The token in a file or else in the environment, if there is one.
pub(crate) fn find_token(file: Option<&Path>) -> Result<Option<Token>, Failure> {
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
    let is_none = || {
        let expected = Token::EXPECTED;
        Failure::Start(format!("{place}: the token is too short, too long or has other characters: {expected}"))
    };
    Token::parse(&text).ok_or_else(is_none).map(Some)
}

/// Whether a request with these headers may ask, where a token may have to be shown.
pub(crate) fn may_ask(token: Option<&Token>, headers: &HeaderMap) -> bool {
    token.is_none_or(|token| token.is_shown(headers))
}
