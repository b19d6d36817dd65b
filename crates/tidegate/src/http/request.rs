//! The head of a request: everything but its body.

use std::net::IpAddr;
use std::sync::Arc;

use http::{Extensions, HeaderMap, Method, Request, Uri};

use super::Client;

/// The head of a request, on which its limits depend: everything but its body.
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

/// The address of a connection's peer. The code that accepts connections puts it into the extensions of requests, for
/// servers that this crate does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddr(pub IpAddr);

/// The template of a request's route, such as `/users/{id}`, for routers that this crate does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route(pub Arc<str>);

impl<'a> RequestHead<'a> {
    /// Returns the head of an `http` request.
    pub fn from_request<B>(request: &'a Request<B>) -> Self {
        RequestHead::new(request.method(), request.uri(), request.headers(), request.extensions())
    }

    /// Creates a head, for a framework with a request type of its own.
    pub fn new(method: &'a Method, uri: &'a Uri, headers: &'a HeaderMap, extensions: &'a Extensions) -> Self {
        RequestHead { method, uri, headers, extensions, peer: None, route: None, client: None }
    }

    /// Sets the address at the other end of the connection, for a framework that knows it.
    #[must_use]
    pub fn with_peer(mut self, peer: impl Into<Option<IpAddr>>) -> Self {
        self.peer = peer.into();
        self
    }

    /// Sets the template of the route, for a framework that knows it.
    #[must_use]
    pub fn with_route(mut self, route: Option<&'a str>) -> Self {
        self.route = route;
        self
    }

    /// Returns the method.
    pub fn method(&self) -> &'a Method {
        self.method
    }

    /// Returns the requested URI.
    pub fn uri(&self) -> &'a Uri {
        self.uri
    }

    /// Returns the headers. A client can write anything into them.
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// Returns the extensions, with values from outer layers such as the user.
    pub fn extensions(&self) -> &'a Extensions {
        self.extensions
    }

    /// Returns the client, if its address is known; see [`ClientAddress`](super::ClientAddress).
    pub fn client(&self) -> Option<&'a Client> {
        self.client
    }

    /// Returns the template of the route, such as `/users/{id}`. `None` for a request without a route, and outside of a
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

    /// Returns whether this is a CORS preflight request of a browser. Any client can send one.
    pub fn is_preflight(&self) -> bool {
        let has = |name: &str| self.headers.contains_key(name);
        *self.method == Method::OPTIONS && has("origin") && has("access-control-request-method")
    }

    /// Returns the address at the other end of the connection.
    #[inline]
    pub fn peer(&self) -> Option<IpAddr> {
        if self.peer.is_some() {
            return self.peer;
        }
        #[cfg(feature = "axum")]
        if let Some(info) = self.extensions.get::<axum::extract::ConnectInfo<std::net::SocketAddr>>() {
            return Some(info.0.ip());
        }
        // axum's mock for tests without a connection.
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
