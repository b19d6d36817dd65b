//! Access checks: bearer tokens, and requests from pages of other sites.

use std::fmt;
use std::sync::Arc;

use http::header::{AUTHORIZATION, FORWARDED, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Uri};

use super::Problem;

/// The minimum length of a token. A shorter one can be guessed.
const MIN_TOKEN_BYTES: usize = 16;

/// The token that clients must present. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(Arc<[u8]>);

impl BearerToken {
    /// The maximum length in bytes: a server must read as much from any stranger.
    pub const MAX_BYTES: usize = 1 << 10;

    /// The requirements of a token, for error messages.
    pub const EXPECTED: &'static str = "expected 16 to 1024 letters, digits or signs, without spaces";

    /// Parses a token and trims the text around it, such as a line end. `None` for a token that can be guessed, or that
    /// cannot be sent in a header or over the Redis protocol.
    pub fn parse(text: &str) -> Option<Self> {
        let token = text.trim();
        let is_valid = (MIN_TOKEN_BYTES..=Self::MAX_BYTES).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| BearerToken(token.as_bytes().into()))
    }

    /// Returns the token, for presenting it to a server.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether this is the token, in time that does not depend on where they differ.
    pub fn matches(&self, presented: &[u8]) -> bool {
        let differences = self.0.iter().zip(presented).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differences) == 0 && self.0.len() == presented.len()
    }

    /// Returns whether the headers of a request present the token: `Authorization: Bearer TOKEN`.
    pub fn is_presented(&self, headers: &HeaderMap) -> bool {
        let presented = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().split_at_checked(7));
        presented.is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case(b"bearer ") && self.matches(token))
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(...)")
    }
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects a request from a page of another site, sent by the browser of a permitted user. Only browsers set these
/// headers. Such a page cannot read responses, so this protects requests that take or change something.
pub fn same_site(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let header = |name: HeaderName| headers.get(name).map(|value| value.as_bytes());
    let is_cross_site = match header(SEC_FETCH_SITE) {
        Some(site) => site != b"same-origin" && site != b"none",
        // Browsers send this one where they leave out the other: over networks without TLS.
        None => header(ORIGIN).is_some_and(|origin| {
            let server = requested_host(uri, headers).unwrap_or_default();
            origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://")) != Some(server)
        }),
    };
    if is_cross_site { Err(Problem::forbidden("pages of other sites may not ask")) } else { Ok(()) }
}

/// Returns the host that a request is sent to, with its port.
pub fn requested_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a [u8]> {
    // HTTP/2 names the server beside the path instead of in a header.
    let named = uri.authority().map(|authority| authority.as_str().as_bytes());
    named.or_else(|| headers.get(HOST).map(|host| host.as_bytes()))
}

/// Like [`same_site`], but admits proxies, whose clients may come from other sites. A proxy identifies itself by
/// headers that no page can set.
pub fn same_site_or_proxy(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    if is_from_proxy(headers) { Ok(()) } else { same_site(uri, headers) }
}

/// Returns whether a request has a header that proxies add, and that no page can set.
pub fn is_from_proxy(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("x-forwarded-") || *name == FORWARDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_matches() {
        let token = BearerToken::parse(" 0123456789abcdef\n").unwrap();
        assert!(token.matches(b"0123456789abcdef"));
        for wrong in [&b""[..], b"0", b"0123456789abcdeF", b"0123456789abcde", b"0123456789abcdef0"] {
            assert!(!token.matches(wrong));
        }
        assert!(!format!("{token:?}").contains("0123"));
        for no_token in ["", "0123456789abcde", "0123456789 abcdef", "0123456789abcde\u{e9}"] {
            assert_eq!(BearerToken::parse(no_token), None, "{no_token:?}");
        }
    }

    #[test]
    fn token_over_the_maximum_length_is_rejected() {
        assert!(BearerToken::parse(&"x".repeat(1_024)).is_some());
        assert_eq!(BearerToken::parse(&"x".repeat(1_025)), None);
    }

    #[test]
    fn token_is_read_from_a_bearer_header() {
        let token = BearerToken::parse("0123456789abcdef").unwrap();
        let presented =
            |value: &'static str| token.is_presented(&[(AUTHORIZATION, value.parse().unwrap())].into_iter().collect());
        assert!(presented("Bearer 0123456789abcdef") && presented("bearer 0123456789abcdef"));
        assert!(!presented("Basic 0123456789abcdef") && !presented("0123456789abcdef") && !presented("Bearer"));
        assert!(!token.is_presented(&HeaderMap::new()));
    }
}
