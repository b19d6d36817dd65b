//! What a layer has to know of requests and responses, whoever's they are.

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Request, Response, StatusCode};

/// A request that is to be sent.
pub trait Outbound {
    /// Whom it is sent to: the host and, where it is not the scheme's own, the port.
    fn host(&self) -> Option<String>;
}

/// What came back.
pub trait Answer {
    /// The status.
    fn status(&self) -> StatusCode;
    /// The headers.
    fn headers(&self) -> &HeaderMap;
    /// Who has answered, written as [`Outbound::host`] writes it: after redirects that is another than was asked. None when it
    /// is not known, and then it is who was asked.
    fn host(&self) -> Option<String> {
        None
    }
}

impl<B> Outbound for Request<B> {
    fn host(&self) -> Option<String> {
        let from_header = || self.headers().get(HOST)?.to_str().ok()?.parse().ok();
        // Who one is to the host does not make it another.
        let authority: Authority = self.uri().authority().cloned().or_else(from_header)?;
        Some(named(authority.host(), authority.port_u16(), self.uri().scheme_str()))
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
        of_url(self.url())
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

    fn host(&self) -> Option<String> {
        of_url(self.url())
    }
}

#[cfg(feature = "reqwest")]
fn of_url(url: &reqwest::Url) -> Option<String> {
    Some(named(url.host_str()?, url.port(), Some(url.scheme())))
}

/// One name for a host, of all the ways to write it.
fn named(host: &str, port: Option<u16>, scheme: Option<&str>) -> String {
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
    fn a_host_has_one_name_however_it_is_written() {
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
    fn a_path_alone_is_sent_to_the_host_of_its_header() {
        for (header, host) in [("API.example.", "api.example"), ("api.example:8080", "api.example:8080")] {
            let request = Request::get("/").header(HOST, header).body(()).unwrap();
            assert_eq!(request.host().unwrap(), host, "{header}");
        }
        assert_eq!(Request::get("/").body(()).unwrap().host(), None);
    }
}
