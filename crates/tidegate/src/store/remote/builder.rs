//! The builder of a [`RemoteStore`].

use std::fmt;
use std::time::Duration;

use http::header::{HeaderValue, InvalidHeaderValue};
use http::uri::{Scheme, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use tidegate_core::StoreError;

use super::background_connector::BackgroundConnector;
use super::client::Client;
use super::connector::{Roots, connector};
use super::{RemoteStore, unsupported};

/// A builder of a [`RemoteStore`]; see [`RemoteStore::builder`].
#[must_use = "a store exists once `build` is called"]
pub struct RemoteStoreBuilder {
    url: String,
    token: Option<String>,
    atomic_all: bool,
    connect_timeout: Duration,
    idle_timeout: Duration,
    roots: Roots,
}

/// The default idle timeout. It is less than the five seconds after which workerd closes an idle connection. A
/// connection that closes just as a call is sent fails that call.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(3);

impl RemoteStoreBuilder {
    pub(super) fn new(url: String) -> Self {
        RemoteStoreBuilder {
            url,
            token: None,
            atomic_all: false,
            connect_timeout: Duration::from_secs(1),
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
            roots: Roots::default(),
        }
    }

    /// Sets the bearer token that the server expects.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Declares whether the server takes any keys all or nothing, as one `tidegate serve` does. A Worker does not: its
    /// keys live in many objects. The setting only changes the reported
    /// [`Store::capabilities`](crate::Store::capabilities). Defaults to `false`.
    pub fn atomic_all(mut self, atomic_all: bool) -> Self {
        self.atomic_all = atomic_all;
        self
    }

    /// Sets the timeout of connecting. Defaults to one second.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long an idle connection is kept. It must be less than the server keeps it. Defaults to three seconds.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets the root certificates, in PEM, that may sign the certificate of an https server. They replace the built-in
    /// ones.
    #[cfg(feature = "remote-tls")]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots = Some(pem.into());
        self
    }

    /// Builds the store, or returns an error for a bad setting. It does not connect yet.
    pub fn build(self) -> Result<RemoteStore, StoreError> {
        let token = self.token.as_deref().map(bearer_header).transpose();
        let token = token.map_err(|_| unsupported("the token has characters that no header can have".to_owned()))?;
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(self.connect_timeout));
        http.set_nodelay(true);
        // The scheme of the URL decides.
        http.enforce_http(false);
        let connector = BackgroundConnector::new(connector(http, self.roots)?, self.connect_timeout, self.idle_timeout);
        let client = Client::new(apply_url(&self.url)?, token, connector, self.idle_timeout);
        Ok(RemoteStore { client, atomic_all: self.atomic_all })
    }
}

impl fmt::Debug for RemoteStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the token.
        f.debug_struct("RemoteStoreBuilder").field("url", &redact_url(&self.url)).finish_non_exhaustive()
    }
}

fn bearer_header(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Redacts the parts of a URL that may be secret: the user and the query.
fn redact_url(url: &str) -> String {
    let (url, query) = url.split_once('?').map_or((url, ""), |(url, _)| (url, "?..."));
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://...@{host}{query}"),
        (None, Some((_, host))) => format!("...@{host}{query}"),
        (_, None) => format!("{url}{query}"),
    }
}

/// Returns the URL of the apply endpoint of the server at this URL.
fn apply_url(url: &str) -> Result<Uri, StoreError> {
    let invalid = |why: &str| unsupported(format!("the server's address {:?}: {why}", redact_url(url)));
    let uri: Uri = url.parse().map_err(|_| invalid("expected such as http://127.0.0.1:8080"))?;
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(invalid("it names a user; a token goes into RemoteStoreBuilder::token"));
    }
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => {}
        Some(scheme) if *scheme == Scheme::HTTPS && cfg!(feature = "remote-tls") => {}
        Some(scheme) if *scheme == Scheme::HTTPS => return Err(invalid("https takes the feature `remote-tls`")),
        _ => return Err(invalid("expected http:// or https:// before the host")),
    }
    if uri.query().is_some() {
        return Err(invalid("expected no query"));
    }
    let path = format!("{}/v1/apply", uri.path().trim_end_matches('/'));
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(path.parse().map_err(|_| invalid("its path cannot be used"))?);
    Uri::from_parts(parts).map_err(|_| invalid("expected such as http://127.0.0.1:8080"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_to_the_apply_path_of_the_server() {
        for (url, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/apply"),
            ("http://edge.example/", "http://edge.example/v1/apply"),
            ("http://edge.example/limits/", "http://edge.example/limits/v1/apply"),
        ] {
            assert_eq!(apply_url(url).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn unusable_url_is_rejected_with_the_reason() {
        for (url, why) in [
            ("", "expected such as"),
            ("127.0.0.1:8080", "expected http://"),
            ("ftp://host", "expected http://"),
            ("http://host/?a=b", "expected no query"),
            ("/v1", "expected http://"),
        ] {
            let error = apply_url(url).unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
        let error = apply_url("http://me:hunter2@host").unwrap_err().to_string();
        assert!(error.contains("token"), "{error}");
        assert_eq!(apply_url("https://edge.example").is_ok(), cfg!(feature = "remote-tls"));
    }

    #[test]
    fn secrets_never_appear_in_errors_or_debug_output() {
        for url in [
            "http://me:hunter2@host",
            "http://me:hunter2 @host",
            "me:hunter2@host",
            "http://host/?token=hunter2",
            "http://ho st/?token=hunter2@x",
        ] {
            let error = apply_url(url).unwrap_err().to_string();
            let builder = format!("{:?}", RemoteStore::builder(url));
            assert!(!error.contains("hunter2") && !builder.contains("hunter2"), "{error} {builder}");
            assert!(error.contains("host") || error.contains("ho st"), "{error}");
        }
        let builder = RemoteStore::builder("http://host").token("open sesame");
        assert!(!format!("{builder:?}").contains("sesame"));
        assert!(!format!("{:?}", builder.build().unwrap()).contains("sesame"));
        assert!(RemoteStore::builder("http://host").token("a\nb").build().is_err());
    }
}
