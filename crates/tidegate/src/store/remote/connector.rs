//! How the server is connected to: plainly, or over TLS.

use hyper_util::client::legacy::connect::HttpConnector;
use tidegate_core::StoreError;

#[cfg(not(feature = "remote-tls"))]
pub(super) use plain::{Connector, Roots, connector};
#[cfg(feature = "remote-tls")]
pub(super) use tls::{Connector, Roots, connector};

#[cfg(not(feature = "remote-tls"))]
mod plain {
    use super::{HttpConnector, StoreError};

    pub(in super::super) type Connector = HttpConnector;
    /// Nobody has to be trusted.
    pub(in super::super) type Roots = ();

    pub(in super::super) fn connector(http: HttpConnector, (): Roots) -> Result<Connector, StoreError> {
        Ok(http)
    }
}

#[cfg(feature = "remote-tls")]
mod tls {
    use std::sync::Arc;

    use hyper_rustls::{ConfigBuilderExt, HttpsConnectorBuilder};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::{ClientConfig, RootCertStore};

    use super::super::unsupported;
    use super::{HttpConnector, StoreError};

    pub(in super::super) type Connector = hyper_rustls::HttpsConnector<HttpConnector>;
    /// Who is trusted to sign the server's certificate, in PEM; none for those that are built in.
    pub(in super::super) type Roots = Option<Vec<u8>>;

    pub(in super::super) fn connector(http: HttpConnector, roots: Roots) -> Result<Connector, StoreError> {
        // Named, because a program that has another one, too, has none by default.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| unsupported(format!("TLS: {error}")))?;
        let config = match roots {
            None => config.with_webpki_roots(),
            Some(pem) => config.with_root_certificates(read(&pem)?),
        };
        let builder = HttpsConnectorBuilder::new().with_tls_config(config.with_no_client_auth());
        Ok(builder.https_or_http().enable_http1().wrap_connector(http))
    }

    fn read(pem: &[u8]) -> Result<RootCertStore, StoreError> {
        let refused = |why: &dyn std::fmt::Display| unsupported(format!("the root certificates: {why}"));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.map_err(|error| refused(&error))?).map_err(|error| refused(&error))?;
        }
        if roots.is_empty() {
            return Err(refused(&"expected at least one in PEM"));
        }
        Ok(roots)
    }
}
