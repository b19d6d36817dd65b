//! The parts of HTTP requests and responses that the layer reads, for `http` and reqwest.

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Request, Response, StatusCode};

/// An outgoing request.
pub trait OutgoingRequest {
    /// Returns the host and, unless it is the default of the scheme, the port.
    fn host(&self) -> Option<String>;
}

/// A response.
pub trait OutgoingResponse {
    /// Returns the status.
    fn status(&self) -> StatusCode;
    /// Returns the headers.
    fn headers(&self) -> &HeaderMap;
    /// Returns the host that responded, written as in [`OutgoingRequest::host`]. After redirects it differs from the
    /// requested one. `None` stands for the requested host.
    fn host(&self) -> Option<String> {
        None
    }
}

impl<B> OutgoingRequest for Request<B> {
    fn host(&self) -> Option<String> {
        let from_header = || self.headers().get(HOST)?.to_str().ok()?.parse().ok();
        // User information does not make another host.
        let authority: Authority = self.uri().authority().cloned().or_else(from_header)?;
        Some(normalized_host(authority.host(), authority.port_u16(), self.uri().scheme_str()))
    }
}

impl<B> OutgoingResponse for Response<B> {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

#[cfg(feature = "reqwest")]
impl OutgoingRequest for reqwest::Request {
    fn host(&self) -> Option<String> {
        host_of_url(self.url())
    }
}

#[cfg(feature = "reqwest")]
impl OutgoingResponse for reqwest::Response {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }

    fn host(&self) -> Option<String> {
        host_of_url(self.url())
    }
}

#[cfg(feature = "reqwest")]
fn host_of_url(url: &reqwest::Url) -> Option<String> {
    Some(normalized_host(url.host_str()?, url.port(), Some(url.scheme())))
}

/// Normalizes the spellings of a host to one.
fn normalized_host(host: &str, port: Option<u16>, scheme: Option<&str>) -> String {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    match (scheme, port) {
        (_, None) | (Some("http"), Some(80)) | (Some("https"), Some(443)) => host,
        (_, Some(port)) => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_host_are_normalized() {
        let cases = [
            ("https://api.example/", "api.example"),
            ("https://api.example:443/", "api.example"),
            ("http://api.example:80/", "api.example"),
            ("https://api.example./", "api.example"),
            ("https://api.example.:443/", "api.example"),
            ("https://me:secret@API.example/", "api.example"),
            ("https://api.example:80/", "api.example:80"),
            ("http://api.example:443/", "api.example:443"),
            ("http://[::1]:80/", "[::1]"),
            ("http://[::1]:8080/", "[::1]:8080"),
        ];
        for (uri, host) in cases {
            assert_eq!(Request::get(uri).body(()).unwrap().host().unwrap(), host, "{uri}");
            #[cfg(feature = "reqwest")]
            {
                let request = reqwest::Request::new(reqwest::Method::GET, uri.parse().unwrap());
                assert_eq!(request.host().unwrap(), host, "{uri}, of reqwest");
            }
        }
    }

    #[test]
    fn relative_uri_takes_the_host_header() {
        for (header, host) in [("API.example.", "api.example"), ("api.example:8080", "api.example:8080")] {
            let request = Request::get("/").header(HOST, header).body(()).unwrap();
            assert_eq!(request.host().unwrap(), host, "{header}");
        }
        assert_eq!(Request::get("/").body(()).unwrap().host(), None);
    }
}
