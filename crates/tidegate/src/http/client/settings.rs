//! From what a config says.

use http::HeaderName;

use super::ClientAddress;
use crate::config::Http;
use crate::trust::TrustProxy;

impl From<&Http> for ClientAddress {
    fn from(http: &Http) -> Self {
        let address = ClientAddress::new().trust(http.trust_proxy.clone()).ipv6_prefix(http.ipv6_prefix);
        // A config's reader takes names only. Code may have put something else there: then there is nothing to read.
        match HeaderName::from_bytes(http.client_header.as_bytes()) {
            Ok(header) => address.header(header),
            Err(_) => address.trust(TrustProxy::Nobody),
        }
    }
}
