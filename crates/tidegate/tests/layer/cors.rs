//! Skipped requests, and CORS headers, without which browsers hide a denial.

use axum::Router;
use axum::http::{HeaderName, Method};
use tidegate::http::RateLimit;
use tidegate::tower::RateLimitLayer;
use tower_http::cors::{Any, CorsLayer};

use crate::clients::{self, RawClient};
use crate::support::{LOOPBACK, Server, left, limiter, window};

const PREFLIGHT: [&str; 2] = ["origin: https://app.example", "access-control-request-method: GET"];

#[tokio::test]
async fn skipped_request_is_not_counted_and_gets_no_headers() {
    let limiter = limiter(window(1));
    let limits = RateLimit::new(limiter.enforcer("api").unwrap()).skip(|head| head.uri().path() == "/healthz");
    let server = Server::behind(limits).await;
    let mut client = RawClient::connect(server.address).await;
    for _ in 0..5 {
        let reply = client.get("/healthz", &[]).await;
        assert_eq!((reply.status, reply.limit_headers()), (200, vec![]));
    }
    assert_eq!(left(&limiter, "api", LOOPBACK).await, 1);
    assert_eq!(client.get("/", &[]).await.status, 200);
    assert_eq!(client.get("/", &[]).await.status, 429);
    assert_eq!(client.get("/healthz", &[]).await.status, 200);
}

#[tokio::test]
async fn preflights_can_be_skipped() {
    let limiter = limiter(window(1));
    let server =
        Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).skip(|head| head.is_preflight())).await;
    let mut client = RawClient::connect(server.address).await;
    for _ in 0..5 {
        assert_eq!(client.send("OPTIONS / HTTP/1.1", &PREFLIGHT).await.status, 200);
    }
    assert_eq!(left(&limiter, "api", LOOPBACK).await, 1);
    // Half a preflight counts.
    for (method, headers, status) in
        [("OPTIONS", &PREFLIGHT[..1], 200), ("OPTIONS", &PREFLIGHT[1..], 429), ("GET", &PREFLIGHT[..], 429)]
    {
        assert_eq!(client.send(&format!("{method} / HTTP/1.1"), headers).await.status, status, "{method} {headers:?}");
    }
}

#[tokio::test]
async fn denial_keeps_the_cors_headers_of_an_outer_layer() {
    let limiter = limiter(window(1));
    let cors = CorsLayer::new().allow_origin(Any).allow_methods([Method::GET]);
    let exposed = ["ratelimit", "ratelimit-policy", "retry-after"].map(HeaderName::from_static);
    let router = Router::new().fallback(|| async { "ok" }).layer(RateLimitLayer::new(limiter.enforcer("api").unwrap()));
    let server = Server::router(router.layer(cors.expose_headers(exposed))).await;
    for status in [200, 429] {
        let reply = clients::get_with(server.address, &PREFLIGHT[..1]).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        assert_eq!(reply.header("access-control-expose-headers"), Some("ratelimit,ratelimit-policy,retry-after"));
        assert!(reply.header("ratelimit").is_some());
        assert_eq!(reply.header("retry-after").is_some(), status == 429);
    }
    // The outer layer answers preflights by itself.
    let reply = RawClient::connect(server.address).await.send("OPTIONS / HTTP/1.1", &PREFLIGHT).await;
    assert_eq!((reply.status, reply.header("access-control-allow-methods")), (200, Some("GET")));
    assert_eq!(reply.limit_headers(), Vec::<&str>::new());
}
