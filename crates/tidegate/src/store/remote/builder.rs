//! How a store behind a server is made.

use std::fmt;
use std::time::Duration;

use http::header::{HeaderValue, InvalidHeaderValue};
use http::uri::{Scheme, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use tidegate_core::StoreError;

use super::client::Client;
use super::connector::{Roots, connector};
use super::kept::Kept;
use super::{RemoteStore, unsupported};

/// How a [`RemoteStore`] is made; see [`RemoteStore::builder`].
#[must_use = "a store exists once `build` is called"]
pub struct RemoteStoreBuilder {
    url: String,
    token: Option<String>,
    atomic_all: bool,
    connect_timeout: Duration,
    idle_timeout: Duration,
    roots: Roots,
}

/// Less than the five seconds after which workerd closes a connection that nobody uses: one that is closed in the very moment
/// in which a call is sent fails that call.
const IDLE: Duration = Duration::from_secs(3);

impl RemoteStoreBuilder {
    pub(super) fn new(url: String) -> Self {
        RemoteStoreBuilder {
            url,
            token: None,
            atomic_all: false,
            connect_timeout: Duration::from_secs(1),
            idle_timeout: IDLE,
            roots: Roots::default(),
        }
    }

    /// The token that the server wants to be shown.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Whether the server takes any keys all or nothing, as one `tidegate serve` does. A Worker does
    /// not: its keys live in many objects. This is only what the store says of itself; without, it does not.
    pub fn atomic_all(mut self, atomic_all: bool) -> Self {
        self.atomic_all = atomic_all;
        self
    }

    /// How long connecting may take: one second unless said otherwise.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a connection that nobody uses is kept: three seconds unless said otherwise. Less than the server keeps it.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Whom to trust to sign the certificate of an https server, in PEM: an authority of your own, in place of those that
    /// are built in.
    #[cfg(feature = "remote-tls")]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots = Some(pem.into());
        self
    }

    /// The store, or what is wrong with its settings. Nothing is connected to yet.
    pub fn build(self) -> Result<RemoteStore, StoreError> {
        let token = self.token.as_deref().map(bearer).transpose();
        let token = token.map_err(|_| unsupported("the token has characters that no header can have".to_owned()))?;
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(self.connect_timeout));
        http.set_nodelay(true);
        // That is for the address to say.
        http.enforce_http(false);
        let connector = Kept::new(connector(http, self.roots)?, self.connect_timeout, self.idle_timeout);
        let client = Client::new(target(&self.url)?, token, connector, self.idle_timeout);
        Ok(RemoteStore { client, atomic_all: self.atomic_all })
    }
}

impl fmt::Debug for RemoteStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the token.
        f.debug_struct("RemoteStoreBuilder").field("url", &shown(&self.url)).finish_non_exhaustive()
    }
}

fn bearer(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// An address without what may well be a secret: a user's password, or what is in the query.
fn shown(url: &str) -> String {
    let (url, query) = url.split_once('?').map_or((url, ""), |(url, _)| (url, "?..."));
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://...@{host}{query}"),
        (None, Some((_, host))) => format!("...@{host}{query}"),
        (_, None) => format!("{url}{query}"),
    }
}

/// Where calls go, for a server at this address.
fn target(url: &str) -> Result<Uri, StoreError> {
    let refused = |why: &str| unsupported(format!("the server's address {:?}: {why}", shown(url)));
    let uri: Uri = url.parse().map_err(|_| refused("expected such as http://127.0.0.1:8080"))?;
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(refused("it names a user; a token goes into RemoteStoreBuilder::token"));
    }
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => {}
        Some(scheme) if *scheme == Scheme::HTTPS && cfg!(feature = "remote-tls") => {}
        Some(scheme) if *scheme == Scheme::HTTPS => return Err(refused("https takes the feature `remote-tls`")),
        _ => return Err(refused("expected http:// or https:// before the host")),
    }
    if uri.query().is_some() {
        return Err(refused("expected no query"));
    }
    let path = format!("{}/v1/apply", uri.path().trim_end_matches('/'));
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(path.parse().map_err(|_| refused("its path cannot be used"))?);
    Uri::from_parts(parts).map_err(|_| refused("expected such as http://127.0.0.1:8080"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_to_the_apply_of_the_server() {
        for (url, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/apply"),
            ("http://edge.example/", "http://edge.example/v1/apply"),
            ("http://edge.example/limits/", "http://edge.example/limits/v1/apply"),
        ] {
            assert_eq!(target(url).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn an_address_that_cannot_be_asked_is_refused_with_the_reason() {
        for (url, why) in [
            ("", "expected such as"),
            ("127.0.0.1:8080", "expected http://"),
            ("ftp://host", "expected http://"),
            ("http://host/?a=b", "expected no query"),
            ("/v1", "expected http://"),
        ] {
            let error = target(url).unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
        let error = target("http://me:hunter2@host").unwrap_err().to_string();
        assert!(error.contains("token"), "{error}");
        assert_eq!(target("https://edge.example").is_ok(), cfg!(feature = "remote-tls"));
    }

    #[test]
    fn a_token_is_never_shown() {
        for url in [
            "http://me:hunter2@host",
            "http://me:hunter2 @host",
            "me:hunter2@host",
            "http://host/?token=hunter2",
            "http://ho st/?token=hunter2@x",
        ] {
            let error = target(url).unwrap_err().to_string();
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
