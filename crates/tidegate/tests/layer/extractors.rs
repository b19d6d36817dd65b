//! Extractors of axum's handlers.

use axum::Router;
use axum::extract::FromRef;
use axum::routing::get;
use tidegate::Limiter;
use tidegate::enforce::Outcome;
use tidegate::http::{RateLimit, RequestHead};
use tidegate::tower::RateLimitLayer;

use crate::clients;
use crate::support::{LOOPBACK, Server, left, limiter, waiting_limiter, window};

async fn remaining(outcome: Outcome) -> String {
    let [limit] = outcome.limit_decisions() else { panic!("{outcome:?}") };
    format!("{} {} of {}", limit.policy(), limit.decision().remaining(), limit.decision().limit())
}

#[tokio::test]
async fn handler_extracts_the_outcome() {
    for limiter in [limiter(window(3)), waiting_limiter(window(3))] {
        let layer = RateLimitLayer::new(RateLimit::new(limiter.enforcer("api").unwrap()).extension());
        let server = Server::router(Router::new().route("/", get(remaining)).layer(layer)).await;
        for body in ["api 2 of 3", "api 1 of 3"] {
            assert_eq!(clients::get(server.address).await.body, body);
        }
    }
}

#[tokio::test]
async fn missing_outcome_is_500_with_an_explanation() {
    let limiter = limiter(window(3));
    for router in [
        Router::new().route("/", get(remaining)),
        Router::new().route("/", get(remaining)).layer(RateLimitLayer::new(limiter.enforcer("api").unwrap())),
    ] {
        let server = Server::router(router).await;
        let reply = clients::get(server.address).await;
        assert_eq!(reply.status, 500);
        assert!(reply.body.starts_with("No limit has handed over what it decided"), "{}", reply.body);
    }
}

#[tokio::test]
async fn optional_outcome_is_none_for_a_skipped_request() {
    async fn remaining(outcome: Option<Outcome>) -> String {
        outcome.map_or("skipped".to_owned(), |outcome| outcome.limit_decisions()[0].decision().remaining().to_string())
    }
    // `skip` can use the client's address.
    let from_me = |head: &RequestHead<'_>| head.client().is_some_and(|client| client.address().is_loopback());
    let limiter = limiter(window(3));
    for (skips, body) in [(false, "2"), (true, "skipped")] {
        let limits =
            RateLimit::new(limiter.enforcer("api").unwrap()).extension().skip(move |head| skips && from_me(head));
        let router = Router::new().route("/", get(remaining)).layer(RateLimitLayer::new(limits));
        let server = Server::router(router).await;
        assert_eq!(clients::get(server.address).await.body, body);
    }
}

#[derive(Clone)]
struct AppState {
    limiter: Limiter,
}

impl FromRef<AppState> for Limiter {
    fn from_ref(state: &AppState) -> Self {
        state.limiter.clone()
    }
}

#[tokio::test]
async fn handler_extracts_the_limiter_from_the_state() {
    async fn take(limiter: Limiter) -> String {
        limiter.limit("api", "by hand").await.unwrap().remaining().to_string()
    }
    let limiter = limiter(window(3));
    let whole = Router::new().route("/", get(take)).with_state(limiter.clone());
    let part = Router::new().route("/", get(take)).with_state(AppState { limiter: limiter.clone() });
    for (router, body) in [(whole, "2"), (part, "1")] {
        assert_eq!(clients::get(Server::router(router).await.address).await.body, body);
    }
    assert_eq!((left(&limiter, "api", "by hand").await, left(&limiter, "api", LOOPBACK).await), (1, 3));
}
