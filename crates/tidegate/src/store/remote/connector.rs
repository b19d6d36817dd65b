//! The connector to the server, with or without TLS.

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
    /// Root certificates, which a connection without TLS does not need.
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
    /// Root certificates in PEM. `None` uses the built-in ones.
    pub(in super::super) type Roots = Option<Vec<u8>>;

    pub(in super::super) fn connector(http: HttpConnector, roots: Roots) -> Result<Connector, StoreError> {
        // Set explicitly: a program that links several providers has no default one.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| unsupported(format!("TLS: {error}")))?;
        let config = match roots {
            None => config.with_webpki_roots(),
            Some(pem) => config.with_root_certificates(parse_roots(&pem)?),
        };
        let builder = HttpsConnectorBuilder::new().with_tls_config(config.with_no_client_auth());
        Ok(builder.https_or_http().enable_http1().wrap_connector(http))
    }

    fn parse_roots(pem: &[u8]) -> Result<RootCertStore, StoreError> {
        let invalid = |why: &dyn std::fmt::Display| unsupported(format!("the root certificates: {why}"));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.map_err(|error| invalid(&error))?).map_err(|error| invalid(&error))?;
        }
        if roots.is_empty() {
            return Err(invalid(&"expected at least one in PEM"));
        }
        Ok(roots)
    }
}
