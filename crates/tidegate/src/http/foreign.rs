//! Heads of requests and responses of frameworks that have types of their own for them, or those of another version of
//! the crate `http`.

#[cfg(any(feature = "actix", feature = "rocket"))]
use std::net::IpAddr;

use http::HeaderMap;
use http::header::{GetAll, HeaderName, HeaderValue};
#[cfg(any(feature = "actix", feature = "rocket"))]
use http::{Extensions, Method, Uri};

#[cfg(any(feature = "actix", feature = "rocket"))]
use super::Incoming;

/// The head of such a request.
#[cfg(any(feature = "actix", feature = "rocket"))]
pub(crate) struct Head {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    extensions: Extensions,
}

#[cfg(any(feature = "actix", feature = "rocket"))]
impl Head {
    /// Whatever a framework has let through is valid here, too: the rules are those of HTTP.
    pub(crate) fn new(method: &str, uri: &str, headers: HeaderMap, extensions: Extensions) -> Self {
        let (method, uri) = (method.parse().unwrap_or_default(), uri.parse().unwrap_or_default());
        Head { method, uri, headers, extensions }
    }

    /// What of the request decides about it.
    pub(crate) fn incoming<'a>(&'a self, peer: Option<IpAddr>, route: Option<&'a str>) -> Incoming<'a> {
        Incoming::new(&self.method, &self.uri, &self.headers, &self.extensions).with_peer(peer).with_route(route)
    }
}

/// The headers, by name and value.
pub(crate) fn headers<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> HeaderMap {
    let field = |(name, value)| Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?));
    let mut headers = HeaderMap::new();
    for (name, value) in fields.into_iter().filter_map(field) {
        headers.append(name, value);
    }
    headers
}

/// The headers that are others afterwards, each with all of its values.
pub(crate) fn changed<'a>(
    before: &'a HeaderMap,
    after: &'a HeaderMap,
) -> impl Iterator<Item = (&'a HeaderName, GetAll<'a, HeaderValue>)> {
    after.keys().map(|name| (name, after.get_all(name))).filter(|(name, values)| before.get_all(*name) != *values)
}
