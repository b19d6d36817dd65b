//! Access control of routes: the bearer token, the same-site rule and the names of the server, for every protocol over HTTP.

mod allowed_hosts;

use std::sync::Arc;

use http::header::{HeaderName, ORIGIN};
use http::{HeaderMap, Request};
use tidegate::api::{BearerToken, Problem, is_from_proxy, same_site, same_site_or_proxy};

pub(crate) use allowed_hosts::{AllowedHosts, HostName};

/// The pages that browsers may call a route from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin {
    /// Only pages of this server. For routes that take or change something.
    SameSite,
    /// Also pages of other sites, if a proxy asks on behalf of its clients. For routes that take by GET.
    SameSiteOrProxy,
    /// Every page: browsers let no other site read the response, and the route changes nothing.
    Any,
}

/// Why a request is refused.
#[derive(Debug)]
pub(super) enum AccessError {
    /// The token is missing or wrong.
    Unauthorized,
    /// A page of another site has sent it, or may have.
    CrossSite(Problem),
}

/// The access rule for the routes of a door: clients must present the token, if there is one.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    token: Option<BearerToken>,
    /// None where a page of another site cannot pass anyway.
    hosts: Option<Arc<AllowedHosts>>,
}

impl Access {
    pub(crate) fn new(token: Option<BearerToken>) -> Self {
        Access { token, hosts: None }
    }

    /// Accepts only requests to these hosts. For a door that browsers reach without TLS, where clients show no token.
    #[must_use]
    pub(crate) fn with_hosts(mut self, hosts: AllowedHosts) -> Self {
        self.hosts = Some(Arc::new(hosts));
        self
    }

    /// Checks the token of a request, the page it comes from and the host it is sent to.
    pub(super) fn check<B>(&self, request: &Request<B>, origin: Origin) -> Result<(), AccessError> {
        if self.token.as_ref().is_some_and(|token| !token.is_presented(request.headers())) {
            return Err(AccessError::Unauthorized);
        }
        let (uri, headers) = (request.uri(), request.headers());
        let from_site = match origin {
            Origin::SameSite => same_site(uri, headers),
            Origin::SameSiteOrProxy => same_site_or_proxy(uri, headers),
            Origin::Any => Ok(()),
        };
        let to_host = || match &self.hosts {
            None => Ok(()),
            Some(hosts) => {
                let is_local = hosts.check(uri, headers)?;
                let needs_sender = matches!(origin, Origin::SameSiteOrProxy) && !is_local;
                if needs_sender && !tells_sender(headers) { Err(anonymous()) } else { Ok(()) }
            }
        };
        from_site.and_then(|()| to_host()).map_err(AccessError::CrossSite)
    }
}

/// Whether a proxy or a page has said that it sends a request. A browser says so of every request but this one: a GET over a
/// network without TLS, such as that of an image.
fn tells_sender(headers: &HeaderMap) -> bool {
    const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    is_from_proxy(headers) || headers.contains_key(ORIGIN) || headers.contains_key(SEC_FETCH_SITE)
}

fn anonymous() -> Problem {
    Problem::forbidden(
        "expected the header X-Forwarded-For or Forwarded of a proxy: without one, a page of another site may have sent this \
         request. Requests to 127.0.0.1 and localhost need none, nor does a server with a token or TLS",
    )
}
