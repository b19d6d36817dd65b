//! Who may ask.

use http::HeaderMap;
use tidegate::api::Problem;

use crate::settings::Access;

impl Access {
    /// Whether a request with these headers may ask.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        match self {
            Access::Everybody => Ok(()),
            Access::Token(token) if token.is_presented(headers) => Ok(()),
            Access::Token(_) => Err(Problem::unauthorized()),
            Access::Nobody => Err(Problem::forbidden(
                "nobody may ask this Worker before it has a token: set the secret TIDEGATE_TOKEN, or TIDEGATE_OPEN=true for \
                 everybody",
            )),
        }
    }
}
