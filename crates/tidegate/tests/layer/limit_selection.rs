//! The limits of a request, its cost, and custom responses.

use axum::Router;
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse;
use tidegate::enforce::Outcome;
use tidegate::http::{RateLimit, RequestHead};
use tidegate::tower::RateLimitLayer;
use tidegate::{Limiter, Quota, minutes};

use crate::clients::{self, get_with};
use crate::support::{LOOPBACK, Server, bucket, builder, clock, left, limiter, window};

#[tokio::test]
async fn bare_quota_is_enforced_as_the_default_limit() {
    // On the system's clock, so only headers that do not depend on the time are checked.
    let server = Server::behind(Quota::token_bucket(2, minutes(60)).unwrap()).await;
    for status in [200, 200, 429] {
        let reply = clients::get(server.address).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("ratelimit-policy"), Some(r#""default";q=2;w=3600"#));
    }
}

#[tokio::test]
async fn layers_and_direct_calls_share_a_limit() {
    let limiter = limiter(bucket(3));
    let servers = [
        Server::behind(limiter.enforcer("api").unwrap()).await,
        Server::behind(limiter.enforcer("api").unwrap()).await,
    ];
    let _ = limiter.limit("api", LOOPBACK).await.unwrap();
    for (server, status) in [(0, 200), (1, 200), (0, 429), (1, 429)] {
        assert_eq!(clients::get(servers[server].address).await.status, status);
    }
}

#[tokio::test]
async fn limits_can_be_picked_per_request() {
    let limiter = limiter(window(1));
    let free = limiter.enforcer("api").unwrap();
    let premium = limiter.enforcer("api").unwrap().with_quota(window(3)).with_policy_name("premium");
    let tenant = tenant_limiter().enforcer("tenant").unwrap();
    let limits = RateLimit::pick(move |head| match head.headers().get("tier").map(HeaderValue::as_bytes) {
        Some(b"premium") => premium.clone(),
        Some(b"tenant") => tenant.clone(),
        _ => free.clone(),
    });
    let server = Server::behind(limits).await;
    let cases = [
        ("free", 200, r#""api";r=0;t=60"#),
        ("free", 429, r#""api";r=0;t=60"#),
        // Both quotas share what was used.
        ("premium", 200, r#""premium";r=1;t=60"#),
        ("tenant", 200, r#""tenant";r=8;t=60"#),
        ("premium", 200, r#""premium";r=0;t=60"#),
        ("premium", 429, r#""premium";r=0;t=60"#),
    ];
    for (tier, status, limit) in cases {
        let reply = get_with(server.address, &[&format!("tier: {tier}")]).await;
        assert_eq!((reply.status, reply.header("ratelimit")), (status, Some(limit)), "{tier}");
    }
}

fn tenant_limiter() -> Limiter {
    builder(&clock()).limit("tenant", window(9)).build().unwrap()
}

#[tokio::test]
async fn cost_can_be_fixed_or_per_request() {
    let limiter = limiter(window(10));
    let by_header = |head: &RequestHead<'_>| {
        head.headers().get("cost").and_then(|cost| cost.to_str().ok()?.parse().ok()).unwrap_or(1)
    };
    let by_request = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).cost_of(by_header)).await;
    let fixed = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).cost(3)).await;
    assert_eq!(get_with(by_request.address, &["cost: 4"]).await.header("ratelimit"), Some(r#""api";r=6;t=60"#));
    assert_eq!(clients::get(by_request.address).await.header("ratelimit"), Some(r#""api";r=5;t=60"#));
    assert_eq!(clients::get(fixed.address).await.header("ratelimit"), Some(r#""api";r=2;t=60"#));
    assert_eq!(clients::get(fixed.address).await.status, 429);
    assert_eq!(left(&limiter, "api", LOOPBACK).await, 2);
}

#[tokio::test]
async fn map_response_replaces_the_denial() {
    let limiter = limiter(window(1));
    let limits = RateLimit::new(limiter.enforcer("api").unwrap()).map_response(|outcome, mut response| {
        assert!(matches!(outcome, Outcome::Limited(_)));
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
        response.map(|_| "slow down".into())
    });
    let server = Server::behind(limits).await;
    let reply = clients::get(server.address).await;
    assert_eq!((reply.status, &*reply.body), (200, "ok"));
    let reply = clients::get(server.address).await;
    assert_eq!((reply.status, &*reply.body), (418, "slow down"));
    assert_eq!((reply.header("content-type"), reply.header("retry-after")), (Some("text/plain"), Some("60")));
    assert_eq!(reply.header("ratelimit"), Some(r#""api";r=0;t=60"#));
}

#[tokio::test]
async fn error_response_has_limit_headers() {
    let limiter = limiter(window(2));
    let failing = || async { StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let layer = RateLimitLayer::new(limiter.enforcer("api").unwrap());
    let server = Server::router(Router::new().fallback(failing).layer(layer)).await;
    let reply = clients::get(server.address).await;
    assert_eq!((reply.status, reply.header("ratelimit")), (500, Some(r#""api";r=1;t=60"#)));
}
