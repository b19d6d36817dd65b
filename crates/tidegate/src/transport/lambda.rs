//! Who a client is and which route it took, in events of AWS Lambda: the layers of [`tower`](crate::tower) know it with
//! `lambda_http`.
//!
//! ```no_run
//! use lambda_http::tower::{ServiceBuilder, service_fn};
//! use lambda_http::{Body, Error, Request, Response};
//! use tidegate::tower::RateLimitLayer;
//! use tidegate::{Quota, seconds};
//!
//! # async fn example() -> Result<(), Error> {
//! // The quota of one instance of the function: a store that all of them share is better, such as Redis.
//! let limit = RateLimitLayer::new(Quota::token_bucket(10, seconds(1))?);
//! let hello = service_fn(async |_: Request| Ok::<_, Error>(Response::new(Body::from("Hello!"))));
//! lambda_http::run(ServiceBuilder::new().layer(limit).service(hello)).await
//! # }
//! ```
//!
//! The peer is the source address in the event's request context, of API Gateway's REST APIs (v1) and HTTP APIs (v2) and of
//! function URLs; a header is only believed where [`ClientAddress`](crate::http::ClientAddress) says so. Events of other
//! kinds, such as those of a load balancer, have none: put a [`Peer`](crate::http::Peer) into their extensions, or count
//! them under another [key](crate::http::keys).

use std::net::IpAddr;

use http::Extensions;
use lambda_http::request::RequestContext;

/// The source address of an event.
pub(crate) fn source(extensions: &Extensions) -> Option<IpAddr> {
    let source = match extensions.get()? {
        RequestContext::ApiGatewayV1(context) => context.identity.source_ip.as_deref(),
        RequestContext::ApiGatewayV2(context) => context.http.source_ip.as_deref(),
        _ => None,
    };
    source?.parse().ok()
}

/// The template of the route that an event has taken: `/users/{id}`, or `GET /users/{id}` in HTTP APIs.
pub(crate) fn route(extensions: &Extensions) -> Option<&str> {
    match extensions.get()? {
        RequestContext::ApiGatewayV1(context) => context.resource_path.as_deref(),
        RequestContext::ApiGatewayV2(context) => context.route_key.as_deref(),
        _ => None,
    }
}
