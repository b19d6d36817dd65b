//! Helpers for adapters of web frameworks: request heads of foreign types, and responses to `HEAD`.
//!
//! An adapter maps a framework's request onto an [`RequestHead`], calls [`Gate::admit`](super::Gate::admit), and keeps
//! an [`InFlight`](super::InFlight) with the response's body. The crates in `crates/adapters` of the repository do
//! exactly that. A framework with the types of the crate `http` 1 needs only [`strip_head_body`].

use std::mem;
use std::net::IpAddr;

use http::header::{CONTENT_LENGTH, GetAll, HeaderName, HeaderValue};
use http::{Extensions, HeaderMap, Method, Response, Uri};

use super::RequestHead;

/// A copy of a request's head, for a framework with request types of its own.
#[derive(Debug)]
pub struct OwnedHead {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    extensions: Extensions,
}

impl OwnedHead {
    /// Copies a head that the framework has parsed. An invalid method or URI becomes `GET` or `/`.
    pub fn new(method: &str, uri: &str, headers: HeaderMap, extensions: Extensions) -> Self {
        let (method, uri) = (method.parse().unwrap_or_default(), uri.parse().unwrap_or_default());
        OwnedHead { method, uri, headers, extensions }
    }

    /// Borrows the head for a gate, with the connection's peer and the route's template if the framework knows them.
    pub fn as_request_head<'a>(&'a self, peer: Option<IpAddr>, route: Option<&'a str>) -> RequestHead<'a> {
        RequestHead::new(&self.method, &self.uri, &self.headers, &self.extensions).with_peer(peer).with_route(route)
    }
}

/// Creates a header map from names and values. Leaves out fields that are not valid HTTP.
pub fn header_map<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> HeaderMap {
    let field = |(name, value)| Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?));
    let mut headers = HeaderMap::new();
    for (name, value) in fields.into_iter().filter_map(field) {
        headers.append(name, value);
    }
    headers
}

/// Returns the headers that are new or differ in `after`, each with all of its values.
pub fn changed_headers<'a>(
    before: &'a HeaderMap,
    after: &'a HeaderMap,
) -> impl Iterator<Item = (&'a HeaderName, GetAll<'a, HeaderValue>)> {
    after.keys().map(|name| (name, after.get_all(name))).filter(|(name, values)| before.get_all(*name) != *values)
}

/// Removes the body of a response to `HEAD`, and keeps its length as a header.
///
/// Clients of HTTP/2 reject a response to `HEAD` with a body, and hyper sends the body. Servers that leave the body out
/// need not call this.
pub fn strip_head_body(method: &Method, mut response: Response<String>) -> Response<String> {
    if method == Method::HEAD {
        let length = mem::take(response.body_mut()).len();
        response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    response
}
