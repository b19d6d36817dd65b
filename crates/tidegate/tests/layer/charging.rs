//! Charging by outcome: checked first, charged when the response is known.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use tidegate::enforce::Enforcer;
use tidegate::http::RateLimit;
use tidegate::tower::RateLimitLayer;
use tidegate::{Limit, Limiter, minutes, seconds};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::clients::{Reply, get_with};
use crate::support::{LOOPBACK, Server, builder, clock, dead_store, left, limiter, memory, waiting_limiter, window};
use crate::waiting_store::WaitingStore;

/// A login that succeeds with a password, behind limits that charge failed ones.
async fn login(enforcer: Enforcer) -> Server {
    let handler = |headers: HeaderMap| async move {
        if headers.contains_key("password") { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
    };
    Server::router(Router::new().fallback(handler).layer(RateLimitLayer::new(charge_failed_logins(enforcer)))).await
}

fn charge_failed_logins(enforcer: Enforcer) -> RateLimit {
    RateLimit::new(enforcer).charge_when(|status, _| status == StatusCode::UNAUTHORIZED)
}

async fn log_in(server: &Server) -> Reply {
    get_with(server.address, &["password: swordfish"]).await
}

async fn fail_login(server: &Server) -> Reply {
    get_with(server.address, &[]).await
}

#[tokio::test]
async fn only_failed_logins_are_charged() {
    for limiter in [limiter(window(2)), waiting_limiter(window(2))] {
        let server = login(limiter.enforcer("api").unwrap()).await;
        for _ in 0..5 {
            let reply = log_in(&server).await;
            assert_eq!((reply.status, reply.limit_headers()[1]), (200, r#"ratelimit: "api";r=2"#));
        }
        // The headers report the quota after the charge.
        for told in [r#"ratelimit: "api";r=1;t=60"#, r#"ratelimit: "api";r=0;t=60"#] {
            let reply = fail_login(&server).await;
            assert_eq!((reply.status, reply.limit_headers()[1..].to_vec()), (401, vec![told]));
        }
        // Exhausted: every login is denied, with and without the password.
        for reply in [fail_login(&server).await, log_in(&server).await] {
            assert_eq!((reply.status, reply.header("retry-after")), (429, Some("60")));
        }
        assert_eq!(left(&limiter, "api", LOOPBACK).await, 0);
    }
}

#[tokio::test]
async fn concurrent_charges_make_debt() {
    for wait in [false, true] {
        let clock = clock();
        let limiter = match wait {
            false => builder(&clock).limit("api", window(2)).build().unwrap(),
            true => {
                Limiter::builder().limit("api", window(2)).store(WaitingStore::new(memory(&clock))).build().unwrap()
            }
        };
        assert_eq!(fail_concurrent_logins(&limiter, 5).await, [401; 5]);
        // Five units of a limit of two are used. The next minute refills two, and the minute after it two more.
        let server = login(limiter.enforcer("api").unwrap()).await;
        assert_eq!(fail_login(&server).await.status, 429);
        clock.advance(minutes(1));
        assert_eq!(fail_login(&server).await.status, 429);
        clock.advance(minutes(1));
        let reply = fail_login(&server).await;
        assert_eq!((reply.status, reply.header("ratelimit")), (401, Some(r#""api";r=0;t=60"#)));
    }
}

#[tokio::test]
async fn shadow_mode_makes_no_debt() {
    for by_limit in [false, true] {
        let clock = clock();
        let limit = Limit::new(window(2)).shadow(by_limit);
        let limiter = builder(&clock).limit("api", limit).build().unwrap();
        let tried = login(limiter.enforcer("api").unwrap().shadow(!by_limit)).await;
        for _ in 0..12 {
            assert_eq!(fail_login(&tried).await.status, 401);
        }
        assert_eq!(fail_login(&tried).await.header("ratelimit"), Some(r#""api";r=0;t=60"#));
        // A minute has no more units than any other.
        clock.advance(minutes(1));
        assert_eq!(left(&limiter, "api", LOOPBACK).await, 2);
    }
}

/// Returns the statuses of `count` failed logins, all of which are checked before one is charged.
async fn fail_concurrent_logins(limiter: &Limiter, count: usize) -> Vec<u16> {
    let barrier = Arc::new(Barrier::new(count));
    let router = Router::new().fallback(async move || {
        barrier.wait().await;
        StatusCode::UNAUTHORIZED
    });
    let layer = RateLimitLayer::new(charge_failed_logins(limiter.enforcer("api").unwrap()));
    let server = Server::router(router.layer(layer)).await;
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let address = server.address;
        tasks.spawn(async move { get_with(address, &[]).await.status });
    }
    // A denied login never reaches the barrier, and all others wait for it.
    tokio::time::timeout(seconds(30), tasks.join_all()).await.expect("a login was denied")
}

#[tokio::test]
async fn every_limit_is_charged() {
    let limiter = builder(&clock()).limit("minute", window(3)).limit("other", window(9)).build().unwrap();
    let server = login(limiter.enforcer("minute").unwrap().and("other").unwrap()).await;
    assert_eq!(log_in(&server).await.header("ratelimit"), Some(r#""minute";r=3, "other";r=9"#));
    assert_eq!(fail_login(&server).await.header("ratelimit"), Some(r#""minute";r=2;t=60, "other";r=8;t=60"#));
    for _ in 0..2 {
        fail_login(&server).await;
    }
    let reply = fail_login(&server).await;
    assert_eq!((reply.status, reply.header("ratelimit")), (429, Some(r#""minute";r=0;t=60, "other";r=6;t=60"#)));
}

#[tokio::test]
async fn response_headers_can_decide_the_charge() {
    let limiter = limiter(window(2));
    let limits = RateLimit::new(limiter.enforcer("api").unwrap())
        .charge_when(|_, headers| headers.contains_key("x-charge"))
        .cost(2);
    let handler = |headers: HeaderMap| async move {
        let mut answer = HeaderMap::new();
        if let Some(charge) = headers.get("charge") {
            answer.insert("x-charge", charge.clone());
        }
        answer
    };
    let server = Server::router(Router::new().fallback(handler).layer(RateLimitLayer::new(limits))).await;
    assert_eq!(get_with(server.address, &[]).await.header("ratelimit"), Some(r#""api";r=2"#));
    assert_eq!(get_with(server.address, &["charge: 1"]).await.header("ratelimit"), Some(r#""api";r=0;t=60"#));
    assert_eq!(get_with(server.address, &[]).await.status, 429);
}

#[tokio::test]
async fn deny_list_applies_when_the_store_is_dead() {
    let limiter =
        Limiter::builder().limit("open", window(9)).limit("listed", window(9)).deny("listed", [LOOPBACK]).unwrap();
    let limiter = limiter.store(dead_store()).build().unwrap();
    for enforcer in [
        limiter.enforcer("open").unwrap().and("listed").unwrap(),
        limiter.enforcer("listed").unwrap().and("open").unwrap(),
    ] {
        assert_eq!(log_in(&login(enforcer).await).await.status, 403);
    }
}

#[tokio::test]
async fn denied_charge_writes_no_retry_after() {
    let limiter = limiter(window(1).max_debt(0).unwrap());
    let barrier = Arc::new(Barrier::new(2));
    let handler = || async move {
        barrier.wait().await;
        StatusCode::UNAUTHORIZED
    };
    let layer = RateLimitLayer::new(charge_failed_logins(limiter.enforcer("api").unwrap()));
    let server = Server::router(Router::new().fallback(handler).layer(layer)).await;
    let (first, second) = tokio::join!(fail_login(&server), fail_login(&server));
    for reply in [first, second] {
        assert_eq!((reply.status, reply.header("retry-after")), (401, None), "{reply:?}");
    }
}
