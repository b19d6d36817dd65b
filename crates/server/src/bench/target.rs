//! A server, as people write it.

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// A server to put a load on, such as `http://127.0.0.1:8080`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub(crate) protocol: Protocol,
    pub(crate) tls: bool,
    /// A name or an address, the latter of IPv6 without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    text: String,
}

/// What a server is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Grpc,
    Resp,
}

const EXPECTED: &str = "expected a URL such as http://127.0.0.1:8080, grpc://127.0.0.1:8081 or redis://127.0.0.1:6380 \
                        (with TLS: https, grpcs, rediss)";

impl Target {
    /// Host and port, as they stand in a URL.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('@') {
            return Err(format!("a name or a password does not belong into it (see --token-file): {EXPECTED}"));
        }
        let uri: Uri = text.parse().map_err(|_| EXPECTED)?;
        let (protocol, tls) = match uri.scheme_str() {
            Some("http") => (Protocol::Http, false),
            Some("https") => (Protocol::Http, true),
            Some("grpc") => (Protocol::Grpc, false),
            Some("grpcs") => (Protocol::Grpc, true),
            Some("redis") => (Protocol::Resp, false),
            Some("rediss") => (Protocol::Resp, true),
            _ => return Err(EXPECTED.to_owned()),
        };
        let Some(port) = uri.port_u16().filter(|port| *port > 0) else {
            return Err(format!("there is no port in it: {EXPECTED}"));
        };
        if !matches!(uri.path_and_query().map(|rest| rest.as_str()), None | Some("" | "/")) || text.contains('#') {
            return Err(format!("there is more behind the port: {EXPECTED}"));
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err(format!("there is no host in it: {EXPECTED}"));
        }
        Ok(Target { protocol, tls, host: host.to_owned(), port, text: text.trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_protocol_host_and_port() {
        let cases = [
            ("http://127.0.0.1:8080", Protocol::Http, false, "127.0.0.1", 8_080),
            ("https://limits.example:443/", Protocol::Http, true, "limits.example", 443),
            ("grpc://[::1]:8081", Protocol::Grpc, false, "::1", 8_081),
            ("grpcs://a:1", Protocol::Grpc, true, "a", 1),
            ("redis://localhost:6380", Protocol::Resp, false, "localhost", 6_380),
            ("rediss://localhost:6380", Protocol::Resp, true, "localhost", 6_380),
        ];
        for (text, protocol, tls, host, port) in cases {
            let target: Target = text.parse().expect(text);
            assert_eq!((target.protocol, target.tls, target.host.as_str(), target.port), (protocol, tls, host, port));
            assert_eq!(target.to_string(), text.trim_end_matches('/'));
            assert!(text.contains(&target.authority()), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for text in ["", "x", "127.0.0.1:8080", "ftp://a:1", "http://", "http://:80", "http://a:x", "http://a:99999"] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains("expected a URL such as"), "{text}: {error}");
        }
        for text in ["http://a", "http://a/", "redis://a", "http://a:0"] {
            assert!(text.parse::<Target>().unwrap_err().starts_with("there is no port"), "{text}");
        }
        for text in ["http://a:1/v1/limit", "redis://a:1/0", "http://a:1?x=1", "http://a:1/#x"] {
            assert!(text.parse::<Target>().unwrap_err().starts_with("there is more behind"), "{text}");
        }
        let error = "redis://:hunter2@a:1".parse::<Target>().unwrap_err();
        assert!(error.contains("--token-file"), "{error}");
    }
}
