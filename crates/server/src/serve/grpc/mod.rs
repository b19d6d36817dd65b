//! gRPC: Envoy's rate limit service, health and reflection.

mod at_once;
mod health;
mod lenient;
mod reflection;
mod service;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitServiceServer;
use http::header::CONTENT_TYPE;
use http::{StatusCode, Version};
use tonic::Status;
use tonic::service::Routes;

use super::auth::{Token, may_ask};
use super::gate::Gate;
use super::shutdown::Shutdown;
use crate::json::same_site;
pub(crate) use at_once::Calls;
use service::RateLimits;

/// How large a message may be.
const MAX_MESSAGE: usize = 1 << 20;

/// Everything that is answered over gRPC. With a token, only to those who show it, but for whether the server serves.
pub(crate) async fn router(gate: Arc<Gate>, token: Option<Token>, shutdown: Shutdown, last: Shutdown) -> Router {
    let health = health::service(shutdown, last).await;
    let service = RateLimits::new(Arc::clone(&gate));
    let service = RateLimitServiceServer::new(service).max_decoding_message_size(MAX_MESSAGE);
    let routes = Routes::new(service).add_service(health).add_service(reflection::service());
    let router = Calls { gate, token: token.clone() }.within(routes.prepare().into_axum_router());
    let router = match token {
        None => router,
        Some(token) => router.layer(from_fn(move |request: Request, next: Next| {
            let may = request.uri().path() == health::CHECK || may_ask(Some(&token), request.headers());
            async move {
                if may {
                    return next.run(request).await;
                }
                Status::unauthenticated("expected the server's token as `authorization: Bearer TOKEN`").into_http()
            }
        })),
    };
    router.layer(from_fn(calls_only))
}

/// Answers calls of gRPC only, which nobody checks behind this. A page of another site can have a browser send anything without
/// asking first, but for their content type. And over HTTP/1 a connection waits for a body for as long as that takes.
async fn calls_only(request: Request, next: Next) -> Response {
    if request.version() != Version::HTTP_2 {
        let why = "expected gRPC, which is spoken over HTTP/2";
        return (StatusCode::HTTP_VERSION_NOT_SUPPORTED, why).into_response();
    }
    let told = request.headers().get(CONTENT_TYPE);
    if !told.is_some_and(|told| told.as_bytes().starts_with(b"application/grpc")) {
        let why = "expected gRPC, with the content type application/grpc";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into_response();
    }
    match same_site(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}
