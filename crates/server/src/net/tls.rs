//! TLS of the ports, by rustls: certificates, keys and the client certificates of gRPC.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use tokio_rustls::TlsAcceptor;

use crate::Failure;
use crate::cli::Serve;

/// The TLS acceptor of each port; `None` without TLS.
pub(crate) struct TlsAcceptors {
    pub(crate) http: Option<TlsAcceptor>,
    pub(crate) grpc: Option<TlsAcceptor>,
    pub(crate) resp: Option<TlsAcceptor>,
}

impl TlsAcceptors {
    pub(crate) fn load(serve: &Serve) -> Result<Self, Failure> {
        let (Some(cert), Some(key)) = (&serve.tls_cert, &serve.tls_key) else {
            return Ok(TlsAcceptors { http: None, grpc: None, resp: None });
        };
        let certificates = read_certificates(cert)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| tls_error(key, "no private key in PEM", &error))?;
        let acceptor = |clients: Option<&Path>, protocols: &[&[u8]]| {
            let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| Failure::Start(error.to_string()))?;
            let builder = match clients {
                None => builder.with_no_client_auth(),
                Some(path) => builder.with_client_cert_verifier(client_verifier(path)?),
            };
            let config = builder.with_single_cert(certificates.clone(), key.clone_key());
            let mut config = config.map_err(|error| tls_error(cert, "does not go with the key", &error))?;
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            Ok::<_, Failure>(TlsAcceptor::from(Arc::new(config)))
        };
        Ok(TlsAcceptors {
            http: Some(acceptor(None, &[b"h2", b"http/1.1"])?),
            grpc: Some(acceptor(serve.tls_client_ca.as_deref(), &[b"h2"])?),
            resp: Some(acceptor(None, &[])?),
        })
    }
}

/// Reads the certificates in a file, of which there is at least one.
fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(Failure::Start(format!("{}: no certificate in PEM", path.display()))),
        Ok(found) => Ok(found),
        Err(error) => Err(tls_error(path, "no certificates in PEM", &error)),
    }
}

/// Reads the certificates in a file as trusted roots.
pub(crate) fn read_roots(path: &Path) -> Result<Arc<RootCertStore>, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        roots.add(certificate).map_err(|error| tls_error(path, "cannot be trusted", &error))?;
    }
    Ok(Arc::new(roots))
}

fn client_verifier(path: &Path) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, Failure> {
    let roots = read_roots(path)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(roots, provider)
        .build()
        .map_err(|error| tls_error(path, "cannot be trusted", &error))
}

fn tls_error(path: &Path, what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Start(format!("{}: {what}: {error}", path.display()))
}
