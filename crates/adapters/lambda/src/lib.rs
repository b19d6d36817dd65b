#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use lambda_http::http::Request;
use lambda_http::request::RequestContext;
use tidegate::http::{PeerAddr, Route};

/// Adds the client's address and the route's template of a Lambda event to its extensions, where the layers of
/// [`tidegate::tower`] find them. For `ServiceBuilder::map_request`, above the layer.
///
/// The peer is the source address in the event's request context: of API Gateway's REST APIs (v1) and HTTP APIs (v2), and of
/// function URLs. Other events, such as those of a load balancer, have none, and stay as they are. The route is
/// `/users/{id}`, or `GET /users/{id}` in HTTP APIs.
pub fn with_peer_and_route<B>(mut request: Request<B>) -> Request<B> {
    let (source, route) = match request.extensions().get() {
        Some(RequestContext::ApiGatewayV1(context)) => {
            (context.identity.source_ip.as_deref(), context.resource_path.as_deref())
        }
        Some(RequestContext::ApiGatewayV2(context)) => {
            (context.http.source_ip.as_deref(), context.route_key.as_deref())
        }
        _ => (None, None),
    };
    let (peer, route) = (source.and_then(|source| source.parse().ok()), route.map(Into::into));
    if let Some(peer) = peer {
        request.extensions_mut().insert(PeerAddr(peer));
    }
    if let Some(route) = route {
        request.extensions_mut().insert(Route(route));
    }
    request
}
