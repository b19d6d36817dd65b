//! Access control of routes: the bearer token and the same-site rule, for every protocol over HTTP.

use http::Request;
use tidegate::api::{BearerToken, Problem, same_site, same_site_or_proxy};

/// The pages that browsers may call a route from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin {
    /// Only pages of this server. For routes that take or change something.
    SameSite,
    /// Also pages of other sites, if a proxy asks on behalf of its clients.
    SameSiteOrProxy,
    /// Every page: browsers let no other site read the response, and the route changes nothing.
    Any,
}

/// Why a request is refused.
#[derive(Debug)]
pub(super) enum AccessError {
    /// The token is missing or wrong.
    Unauthorized,
    /// A page of another site has sent it.
    CrossSite(Problem),
}

/// The access rule for the routes of a door: clients must present the token, if there is one.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    token: Option<BearerToken>,
}

impl Access {
    pub(crate) fn new(token: Option<BearerToken>) -> Self {
        Access { token }
    }

    /// Checks the token of a request and the page it comes from.
    pub(super) fn check<B>(&self, request: &Request<B>, origin: Origin) -> Result<(), AccessError> {
        if self.token.as_ref().is_some_and(|token| !token.is_presented(request.headers())) {
            return Err(AccessError::Unauthorized);
        }
        let from_site = match origin {
            Origin::SameSite => same_site(request.uri(), request.headers()),
            Origin::SameSiteOrProxy => same_site_or_proxy(request.uri(), request.headers()),
            Origin::Any => Ok(()),
        };
        from_site.map_err(AccessError::CrossSite)
    }
}
