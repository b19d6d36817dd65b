//! The gRPC server: Envoy's rate limit service, health and reflection.

mod fast_path;
mod lenient;
mod reflection;
mod service;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{RateLimitServiceServer, SERVICE_NAME};
use http::header::CONTENT_TYPE;
use http::{StatusCode, Version};
use tonic::Status;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};

use super::access::{Access, AccessError, Origin};
use crate::app::App;
use crate::net::shutdown::Shutdown;
pub(crate) use fast_path::RateLimitFastPath;
use service::RateLimits;

/// The most bytes of a message.
const MAX_MESSAGE: usize = 1 << 20;

/// The services of the gRPC door. With a token, only its owner may call them, except for the health check.
pub(crate) async fn router(app: Arc<App>, access: Access, shutdown: Shutdown, last: Shutdown) -> Router {
    let health = health_service(shutdown, last).await;
    let service = RateLimits::new(Arc::clone(&app));
    let service = RateLimitServiceServer::new(service).max_decoding_message_size(MAX_MESSAGE);
    let routes = Routes::new(service).add_service(health).add_service(reflection::service());
    let fast_path = RateLimitFastPath { app, access: access.clone() };
    let router = fast_path.before_router(routes.prepare().into_axum_router());
    let router = router.layer(from_fn(move |request: Request, next: Next| {
        let access = if request.uri().path() == HEALTH_CHECK { Access::new(None) } else { access.clone() };
        let allowed = access.check(&request, Origin::SameSite);
        async move {
            match allowed {
                Ok(()) => next.run(request).await,
                Err(AccessError::Unauthorized) => {
                    Status::unauthenticated("expected the server's token as `authorization: Bearer TOKEN`").into_http()
                }
                Err(AccessError::CrossSite(problem)) => problem.into_response(),
            }
        }
    }));
    router.layer(from_fn(grpc_only))
}

/// Lets only gRPC calls pass, because the services do not check that. A page of another site can make a browser send any request
/// without a preflight, except for its content type. And over HTTP/1, a connection would wait for a body without a timeout.
async fn grpc_only(request: Request, next: Next) -> Response {
    if request.version() != Version::HTTP_2 {
        let why = "expected gRPC, which is spoken over HTTP/2";
        return (StatusCode::HTTP_VERSION_NOT_SUPPORTED, why).into_response();
    }
    let content_type = request.headers().get(CONTENT_TYPE);
    if !content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc")) {
        let why = "expected gRPC, with the content type application/grpc";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into_response();
    }
    next.run(request).await
}

/// The prefix of the paths of the health service.
const HEALTH_PREFIX: &str = "/grpc.health.v1.Health/";

/// The call that needs no token. `Watch` needs one: it stays open as long as the client likes.
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";

/// The services that report health: the server as a whole, and its one service.
const HEALTH_SERVICES: [&str; 2] = ["", SERVICE_NAME];

/// The health service: not serving once the shutdown starts, and unknown at its end.
async fn health_service(mut shutdown: Shutdown, mut last: Shutdown) -> HealthServer<impl Health> {
    let (mut reporter, health) = tonic_health::server::health_reporter();
    for service in HEALTH_SERVICES {
        reporter.set_service_status(service, ServingStatus::Serving).await;
    }
    tokio::spawn(async move {
        shutdown.wait().await;
        for service in HEALTH_SERVICES {
            reporter.set_service_status(service, ServingStatus::NotServing).await;
        }
        // A client of `Watch` would otherwise keep its connection, and the server, until the end of the grace period.
        last.wait().await;
        for service in HEALTH_SERVICES {
            reporter.clear_service_status(service).await;
        }
    });
    health
}
