//! Responses to denied requests: the status, and the exact members of the problem.

use std::sync::Arc;

use axum::Router;
use serde_json::{Value, json};
use tidegate::http::{ClientAddress, RateLimit, TrustProxy};
use tidegate::tower::RateLimitLayer;
use tidegate::{Limit, Limiter, OnStoreError, StoreError, StoreErrorKind};
use tidegate_testkit::FaultyStore;

use crate::clients::{self, get_with};
use crate::support::{
    LOOPBACK, Server, bucket, builder, clock, left, limiter, memory, removed_limit, waiting_limiter, window,
};

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// Returns a problem without its two members of prose.
async fn problem(server: &Server, status: u16) -> Value {
    let reply = clients::get(server.address).await;
    assert_eq!(reply.status, status);
    without_prose(reply.problem())
}

fn without_prose(mut problem: Value) -> Value {
    for member in ["title", "detail"] {
        let prose = problem.as_object_mut().unwrap().remove(member);
        assert!(prose.is_some_and(|prose| prose.as_str().is_some_and(|text| !text.is_empty())), "no {member}");
    }
    problem
}

#[tokio::test]
async fn exhausted_quota_is_429() {
    for limiter in [limiter(window(1)), waiting_limiter(window(1))] {
        let server = Server::behind(limiter.enforcer("api").unwrap()).await;
        assert_eq!(clients::get(server.address).await.status, 200);
        let expected = json!({
            "type": QUOTA_EXCEEDED, "status": 429, "violated-policies": ["api"], "retry_after_ms": 60_000, "retryable": true,
        });
        // No prose: this response is sent as often as clients retry.
        let reply = clients::get(server.address).await;
        assert_eq!((reply.status, reply.problem()), (429, expected));
    }
}

#[tokio::test]
async fn cost_above_the_capacity_is_429_and_not_retryable() {
    let limiter = limiter(window(2));
    let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).cost(3)).await;
    let reply = clients::get(server.address).await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, None));
    let expected = json!({
        "type": QUOTA_EXCEEDED, "status": 429, "violated-policies": ["api"], "retry_after_ms": null, "retryable": false,
        "detail": "The request costs more than the whole quota: it cannot be retried as it is.",
    });
    assert_eq!(reply.problem(), expected);
    assert_eq!(left(&limiter, "api", LOOPBACK).await, 2);
}

#[tokio::test]
async fn listed_client_is_403_without_limit_headers() {
    let limiter = builder(&clock()).limit("api", window(2)).deny("api", [LOOPBACK]).unwrap().build().unwrap();
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    let reply = clients::get(server.address).await;
    assert_eq!((reply.status, reply.limit_headers()), (403, vec![]));
    let expected = json!({ "type": "about:blank", "status": 403, "retry_after_ms": null, "retryable": false });
    assert_eq!(without_prose(reply.problem()), expected);
}

#[tokio::test]
async fn shadowed_deny_list_writes_no_limit_headers() {
    let limiter = builder(&clock()).limit("api", window(2)).deny("api", [LOOPBACK]).unwrap().build().unwrap();
    let server = Server::behind(limiter.enforcer("api").unwrap().shadow(true)).await;
    let reply = clients::get(server.address).await;
    assert_eq!((reply.status, reply.limit_headers()), (200, vec![]));
}

/// A limit without a quota to report does not hide the others.
#[tokio::test]
async fn shadowed_deny_list_keeps_the_headers_of_other_limits() {
    let trial = Limit::new(window(5)).shadow(true).deny([LOOPBACK]).unwrap();
    let limiter = builder(&clock()).limit("api", window(2)).limit("trial", trial).build().unwrap();
    let server = Server::behind(limiter.enforcer("trial").unwrap().and("api").unwrap()).await;
    let reply = clients::get(server.address).await;
    assert_eq!((reply.status, reply.header("ratelimit")), (200, Some(r#""api";r=1;t=60"#)));
    assert_eq!(reply.header("ratelimit-policy"), Some(r#""api";q=2;w=60"#));
}

#[tokio::test]
async fn deny_list_sees_the_whole_ipv6_address() {
    let limiter = builder(&clock()).limit("api", window(2)).deny_all(["2001:db8::bad"]).unwrap().build().unwrap();
    let clients = ClientAddress::new().trust(TrustProxy::hops(1));
    let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).client_address(clients)).await;
    let from = |address: &'static str| async move {
        let reply = get_with(server.address, &[&format!("x-forwarded-for: {address}")]).await;
        (reply.status, reply.header("ratelimit").map(str::to_owned))
    };
    let from = &from;
    assert_eq!(from("2001:db8::bad").await, (403, None));
    // Neighbours share what the denied one has not touched.
    assert_eq!(from("2001:db8::1").await, (200, Some(r#""api";r=1;t=60"#.to_owned())));
    assert_eq!(from("2001:db8::2").await, (200, Some(r#""api";r=0;t=60"#.to_owned())));
    assert_eq!(from("2001:db8::3").await.0, 429);
    assert_eq!(from("2001:db8::bad").await, (403, None));
}

#[tokio::test]
async fn dead_store_is_503_when_the_limit_is_closed() {
    let store = Arc::new(FaultyStore::new(memory(&clock())));
    store.faults().fail(StoreError::new(StoreErrorKind::Unavailable, "the password is hunter2"));
    let limit = Limit::new(window(2)).on_store_error(OnStoreError::Closed);
    let limiter = Limiter::builder().limit("api", limit).store(store).build().unwrap();
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    let reply = clients::get(server.address).await;
    assert_eq!((reply.status, reply.limit_headers()), (503, vec![]));
    assert!(!reply.body.contains("hunter2"));
    let expected = json!({ "type": REDUCED_CAPACITY, "status": 503, "retry_after_ms": null, "retryable": true });
    assert_eq!(without_prose(reply.problem()), expected);
}

#[tokio::test]
async fn misuse_is_500_and_leaks_nothing() {
    let limiter = limiter(bucket(2));
    let mistakes = [
        ("a limit that was removed", RateLimit::new(removed_limit("secret-name"))),
        ("a cost that is none", RateLimit::new(limiter.enforcer("api").unwrap()).cost(0)),
        (
            "too few keys",
            RateLimit::new(limiter.enforcer("api").unwrap().and("api").unwrap()).key_each(|_| Some(vec![])),
        ),
    ];
    for (what, limits) in mistakes {
        let server = Server::behind(limits).await;
        let reply = clients::get(server.address).await;
        assert_eq!((reply.status, reply.limit_headers()), (500, vec![]), "{what}");
        assert!(!reply.body.contains("secret-name") && !reply.body.contains("api"), "{what}: {}", reply.body);
        let expected = json!({ "type": "about:blank", "status": 500, "retry_after_ms": null, "retryable": false });
        assert_eq!(without_prose(reply.problem()), expected, "{what}");
    }
    assert_eq!(left(&limiter, "api", LOOPBACK).await, 2);
}

#[tokio::test]
async fn closed_limiter_is_503() {
    let limiter = limiter(bucket(2));
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    limiter.close().await;
    let expected = json!({ "type": REDUCED_CAPACITY, "status": 503, "retry_after_ms": null, "retryable": true });
    assert_eq!(problem(&server, 503).await, expected);
}

#[tokio::test]
async fn unknown_client_address_is_500() {
    let limiter = limiter(bucket(2));
    let limits = || RateLimit::new(limiter.enforcer("api").unwrap());
    for rate_limit in [limits(), limits().key(|_| None)] {
        let router = Router::new().fallback(|| async { "ok" });
        let router = router.layer(RateLimitLayer::new(rate_limit));
        // Without `into_make_service_with_connect_info` there is no peer.
        let server = Server::start(|listener| async move { axum::serve(listener, router).await.unwrap() }).await;
        let reply = clients::get(server.address).await;
        assert_eq!(reply.status, 500);
        assert_eq!(reply.problem()["retryable"], false);
    }
}
