//! The servers under test: their URLs, and connections to them.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::LoadError;

/// A server under test, such as `http://127.0.0.1:8080`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub(crate) protocol: Protocol,
    pub(crate) tls: bool,
    /// A name or an address. An IPv6 address has no brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    text: String,
}

/// The protocol that a server under test speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Tidegate's HTTP API over HTTP/1.1.
    Http,
    /// Envoy's rate limit service over gRPC.
    Grpc,
    /// The Redis protocol.
    Resp,
}

const EXPECTED: &str = "expected a URL such as http://127.0.0.1:8080, grpc://127.0.0.1:8081 or redis://127.0.0.1:6380 \
                        (with TLS: https, grpcs, rediss)";

impl Target {
    /// Returns the protocol that the server speaks.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns whether connections use TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Returns host and port in the notation of a URL.
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

/// The maximum time of a server to accept a connection, and to finish the handshakes of TLS and the protocol.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A byte stream to a server, with TLS or without.
pub(crate) type IoStream = Box<dyn ReadWrite>;

/// Both directions of a byte stream.
pub(crate) trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for T {}

/// Opens byte streams to one server.
#[derive(Clone)]
pub(crate) struct Connector {
    target: Target,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    pub(crate) fn new(target: &Target, roots: Option<&Arc<RootCertStore>>) -> Result<Self, LoadError> {
        let tls = match roots.filter(|_| target.tls) {
            None => None,
            Some(roots) => {
                let failed = |error: &dyn std::fmt::Display| LoadError(format!("{target}: no TLS: {error}"));
                let name = ServerName::try_from(target.host.clone()).map_err(|error| failed(&error))?;
                let provider = Arc::new(rustls::crypto::ring::default_provider());
                let config = ClientConfig::builder_with_provider(provider)
                    .with_safe_default_protocol_versions()
                    .map_err(|error| failed(&error))?;
                let mut config = config.with_root_certificates(Arc::clone(roots)).with_no_client_auth();
                config.alpn_protocols = match target.protocol {
                    Protocol::Http => vec![b"http/1.1".to_vec()],
                    Protocol::Grpc => vec![b"h2".to_vec()],
                    Protocol::Resp => Vec::new(),
                };
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        Ok(Connector { target: target.clone(), tls })
    }

    /// Opens a stream. The error has the cause and the next step.
    pub(crate) async fn open(&self) -> Result<IoStream, String> {
        let Target { host, port, .. } = &self.target;
        let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect((host.as_str(), *port))).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(connect_error(&error)),
            Err(_) => {
                return Err(format!(
                    "nobody answers within {CONNECT_TIMEOUT:?}: is the address right, and no firewall between?"
                ));
            }
        };
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let Some((connector, name)) = &self.tls else { return Ok(Box::new(stream)) };
        match timeout(CONNECT_TIMEOUT, connector.connect(name.clone(), stream)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(format!(
                "TLS cannot be agreed upon: {error}. Does that port speak TLS, and does --tls-ca hold the certificate that \
                 signed the server's?"
            )),
            Err(_) => Err(format!("TLS is not agreed upon within {CONNECT_TIMEOUT:?}: does that port speak TLS?")),
        }
    }
}

fn connect_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nobody listens there: start a server with `tidegate serve`, or give the address of one that runs"
                .to_owned()
        }
        _ if error.raw_os_error().is_none() => format!("{error}: is the name of the host right?"),
        _ => format!("cannot be reached: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_gives_protocol_host_and_port() {
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
    fn malformed_url_says_what_is_expected() {
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
