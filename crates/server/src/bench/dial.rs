//! Connections to a server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::target::{Protocol, Target};
use crate::failure::Failure;

/// How long a server may take to accept a connection, and to agree upon TLS and the token.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A connection, with TLS or without.
pub(super) type Wire = Box<dyn Duplex>;

/// What can be read and written.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Opens connections to one server.
#[derive(Clone)]
pub(super) struct Dial {
    target: Target,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dial {
    pub(super) fn new(target: &Target, roots: Option<&Arc<RootCertStore>>) -> Result<Self, Failure> {
        let tls = match roots.filter(|_| target.tls) {
            None => None,
            Some(roots) => {
                let wrong = |error: &dyn std::fmt::Display| Failure::Load(format!("{target}: no TLS: {error}"));
                let name = ServerName::try_from(target.host.clone()).map_err(|error| wrong(&error))?;
                let provider = Arc::new(rustls::crypto::ring::default_provider());
                let config = ClientConfig::builder_with_provider(provider)
                    .with_safe_default_protocol_versions()
                    .map_err(|error| wrong(&error))?;
                let mut config = config.with_root_certificates(Arc::clone(roots)).with_no_client_auth();
                config.alpn_protocols = match target.protocol {
                    Protocol::Http => vec![b"http/1.1".to_vec()],
                    Protocol::Grpc => vec![b"h2".to_vec()],
                    Protocol::Resp => Vec::new(),
                };
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        Ok(Dial { target: target.clone(), tls })
    }

    /// A connection; or what is wrong, and what to do next.
    pub(super) async fn open(&self) -> Result<Wire, String> {
        let Target { host, port, .. } = &self.target;
        let stream = match timeout(PATIENCE, TcpStream::connect((host.as_str(), *port))).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(refused(&error)),
            Err(_) => {
                return Err(format!(
                    "nobody answers within {PATIENCE:?}: is the address right, and no firewall between?"
                ));
            }
        };
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let Some((connector, name)) = &self.tls else { return Ok(Box::new(stream)) };
        match timeout(PATIENCE, connector.connect(name.clone(), stream)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(format!(
                "TLS cannot be agreed upon: {error}. Does that port speak TLS, and does --tls-ca hold the certificate that \
                 signed the server's?"
            )),
            Err(_) => Err(format!("TLS is not agreed upon within {PATIENCE:?}: does that port speak TLS?")),
        }
    }
}

fn refused(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nobody listens there: start a server with `tidegate serve`, or give the address of one that runs"
                .to_owned()
        }
        _ if error.raw_os_error().is_none() => format!("{error}: is the name of the host right?"),
        _ => format!("cannot be reached: {error}"),
    }
}
