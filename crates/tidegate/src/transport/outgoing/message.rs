//! What a layer has to know of requests and responses, whoever's they are.

use http::header::HOST;
use http::{HeaderMap, Request, Response, StatusCode};

/// A request that is to be sent.
pub trait Outbound {
    /// Whom it is sent to: the host and, where it is said, the port.
    fn host(&self) -> Option<String>;
}

/// What came back.
pub trait Answer {
    /// The status.
    fn status(&self) -> StatusCode;
    /// The headers.
    fn headers(&self) -> &HeaderMap;
}

impl<B> Outbound for Request<B> {
    fn host(&self) -> Option<String> {
        let from_header = || self.headers().get(HOST)?.to_str().ok();
        let host = self.uri().authority().map(|authority| authority.as_str()).or_else(from_header);
        // Who one is to the host does not make it another.
        host.map(|host| host.rsplit('@').next().unwrap_or(host).to_ascii_lowercase())
    }
}

impl<B> Answer for Response<B> {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

#[cfg(feature = "reqwest")]
impl Outbound for reqwest::Request {
    fn host(&self) -> Option<String> {
        let (host, port) = (self.url().host_str()?, self.url().port());
        Some(port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
    }
}

#[cfg(feature = "reqwest")]
impl Answer for reqwest::Response {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}
