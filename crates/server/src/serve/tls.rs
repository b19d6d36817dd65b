//! TLS, by rustls.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use tokio_rustls::TlsAcceptor;

use crate::cli::Serve;
use crate::failure::Failure;

/// How each port agrees upon TLS; none for plain connections.
pub(crate) struct Tls {
    pub(crate) http: Option<TlsAcceptor>,
    pub(crate) grpc: Option<TlsAcceptor>,
    pub(crate) resp: Option<TlsAcceptor>,
}

impl Tls {
    pub(crate) fn of(serve: &Serve) -> Result<Self, Failure> {
        let (Some(cert), Some(key)) = (&serve.tls_cert, &serve.tls_key) else {
            return Ok(Tls { http: None, grpc: None, resp: None });
        };
        let certificates = certificates(cert)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, "no private key in PEM", &error))?;
        let acceptor = |clients: Option<&Path>, protocols: &[&[u8]]| {
            let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| Failure::Start(error.to_string()))?;
            let builder = match clients {
                None => builder.with_no_client_auth(),
                Some(path) => builder.with_client_cert_verifier(verifier(path)?),
            };
            let config = builder.with_single_cert(certificates.clone(), key.clone_key());
            let mut config = config.map_err(|error| wrong(cert, "does not go with the key", &error))?;
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            Ok::<_, Failure>(TlsAcceptor::from(Arc::new(config)))
        };
        Ok(Tls {
            http: Some(acceptor(None, &[b"h2", b"http/1.1"])?),
            grpc: Some(acceptor(serve.tls_client_ca.as_deref(), &[b"h2"])?),
            resp: Some(acceptor(None, &[])?),
        })
    }
}

/// The certificates in a file, of which there is at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(Failure::Start(format!("{}: no certificate in PEM", path.display()))),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(path, "no certificates in PEM", &error)),
    }
}

/// Whoever signs the certificates of those who are trusted.
pub(crate) fn trusted(path: &Path) -> Result<Arc<RootCertStore>, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| wrong(path, "cannot be trusted", &error))?;
    }
    Ok(Arc::new(roots))
}

fn verifier(path: &Path) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, Failure> {
    let roots = trusted(path)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(roots, provider)
        .build()
        .map_err(|error| wrong(path, "cannot be trusted", &error))
}

fn wrong(path: &Path, what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Start(format!("{}: {what}: {error}", path.display()))
}
