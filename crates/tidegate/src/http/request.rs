//! The head of a request: everything but its body.

use std::net::IpAddr;
use std::sync::Arc;

use http::{Extensions, HeaderMap, Method, Request, Uri};

use super::Client;

/// What of a request decides about it: everything but its body.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
    peer: Option<IpAddr>,
    route: Option<&'a str>,
    client: Option<&'a Client>,
}

/// The address of a connection's peer, for servers that this crate knows no other way to learn it from: whoever accepts
/// the connection puts it into the extensions of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddr(pub IpAddr);

/// The template of the route that a request has taken, such as `/users/{id}`, for routers that this crate knows no
/// other way to learn it from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route(pub Arc<str>);

impl<'a> RequestHead<'a> {
    /// What of `request` decides about it.
    pub fn from_request<B>(request: &'a Request<B>) -> Self {
        RequestHead::new(request.method(), request.uri(), request.headers(), request.extensions())
    }

    /// A request of a framework that has a type of its own for them.
    pub fn new(method: &'a Method, uri: &'a Uri, headers: &'a HeaderMap, extensions: &'a Extensions) -> Self {
        RequestHead { method, uri, headers, extensions, peer: None, route: None, client: None }
    }

    /// The same, with the address at the other end of the connection, by a framework that knows it.
    #[must_use]
    pub fn with_peer(mut self, peer: impl Into<Option<IpAddr>>) -> Self {
        self.peer = peer.into();
        self
    }

    /// The same, with the template of the route that it has taken, by a framework that knows it.
    #[must_use]
    pub fn with_route(mut self, route: Option<&'a str>) -> Self {
        self.route = route;
        self
    }

    /// The method.
    pub fn method(&self) -> &'a Method {
        self.method
    }

    /// The address that is asked for.
    pub fn uri(&self) -> &'a Uri {
        self.uri
    }

    /// The headers. A client can write anything into them.
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// What outer layers have said about the request, such as who the user is.
    pub fn extensions(&self) -> &'a Extensions {
        self.extensions
    }

    /// The client, as far as its address can be known; see [`ClientAddress`](super::ClientAddress).
    pub fn client(&self) -> Option<&'a Client> {
        self.client
    }

    /// The template of the route, such as `/users/{id}`. None for a request that no route takes, and outside of a
    /// router.
    pub fn route(&self) -> Option<&'a str> {
        if self.route.is_some() {
            return self.route;
        }
        #[cfg(feature = "axum")]
        if let Some(path) = self.extensions.get::<axum::extract::MatchedPath>() {
            return Some(path.as_str());
        }
        self.extensions.get::<Route>().map(|route| &*route.0)
    }

    /// Whether a browser asks if it may send the request proper, as CORS has it. Anybody can pretend to.
    pub fn is_preflight(&self) -> bool {
        let has = |name: &str| self.headers.contains_key(name);
        *self.method == Method::OPTIONS && has("origin") && has("access-control-request-method")
    }

    /// The address at the other end of the connection.
    #[inline]
    pub fn peer(&self) -> Option<IpAddr> {
        if self.peer.is_some() {
            return self.peer;
        }
        #[cfg(feature = "axum")]
        if let Some(info) = self.extensions.get::<axum::extract::ConnectInfo<std::net::SocketAddr>>() {
            return Some(info.0.ip());
        }
        // What axum has for tests without a connection.
        #[cfg(feature = "axum")]
        if let Some(mock) = self.extensions.get::<axum::extract::connect_info::MockConnectInfo<std::net::SocketAddr>>()
        {
            return Some(mock.0.ip());
        }
        #[cfg(feature = "grpc")]
        if let Some(info) = self.extensions.get::<tonic::transport::server::TcpConnectInfo>() {
            return info.remote_addr().map(|address| address.ip());
        }
        self.extensions.get::<PeerAddr>().map(|peer| peer.0)
    }

    pub(super) fn with_client<'b>(&self, client: Option<&'b Client>) -> RequestHead<'b>
    where
        'a: 'b,
    {
        RequestHead { client, ..*self }
    }
}
