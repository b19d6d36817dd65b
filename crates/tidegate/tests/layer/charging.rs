//! Charging by outcome: looked at first, charged when the response is known.

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
use crate::elsewhere::Elsewhere;
use crate::support::{ME, Server, builder, clock, dead, left, limiter, memory, waiting_limiter, window};

/// A login that succeeds for whoever knows the password, behind limits that count failed ones.
async fn login(enforcer: Enforcer) -> Server {
    let handler = |headers: HeaderMap| async move {
        if headers.contains_key("password") { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
    };
    Server::router(Router::new().fallback(handler).layer(RateLimitLayer::new(failed_logins(enforcer)))).await
}

fn failed_logins(enforcer: Enforcer) -> RateLimit {
    RateLimit::new(enforcer).charge_when(|status, _| status == StatusCode::UNAUTHORIZED)
}

async fn right(server: &Server) -> Reply {
    get_with(server.address, &["password: swordfish"]).await
}

async fn wrong(server: &Server) -> Reply {
    get_with(server.address, &[]).await
}

#[tokio::test]
async fn only_failed_logins_count() {
    for limiter in [limiter(window(2)), waiting_limiter(window(2))] {
        let server = login(limiter.enforcer("api").unwrap()).await;
        for _ in 0..5 {
            let reply = right(&server).await;
            assert_eq!((reply.status, reply.told()[1]), (200, r#"ratelimit: "api";r=2"#));
        }
        // What is told is what is left after the charge.
        for told in [r#"ratelimit: "api";r=1;t=60"#, r#"ratelimit: "api";r=0;t=60"#] {
            let reply = wrong(&server).await;
            assert_eq!((reply.status, reply.told()[1..].to_vec()), (401, vec![told]));
        }
        // Used up: nobody gets as far as the password, right or wrong.
        for reply in [wrong(&server).await, right(&server).await] {
            assert_eq!((reply.status, reply.header("retry-after")), (429, Some("60")));
        }
        assert_eq!(left(&limiter, "api", ME).await, 0);
    }
}

#[tokio::test]
async fn whoever_was_let_through_at_the_same_time_is_charged_and_makes_debt() {
    for wait in [false, true] {
        let clock = clock();
        let limiter = match wait {
            false => builder(&clock).limit("api", window(2)).build().unwrap(),
            true => Limiter::builder().limit("api", window(2)).store(Elsewhere::new(memory(&clock))).build().unwrap(),
        };
        assert_eq!(at_once(&limiter, 5).await, [401; 5]);
        // Five of two are gone. The next minute brings two and the one after it two more.
        let server = login(limiter.enforcer("api").unwrap()).await;
        assert_eq!(wrong(&server).await.status, 429);
        clock.advance(minutes(1));
        assert_eq!(wrong(&server).await.status, 429);
        clock.advance(minutes(1));
        let reply = wrong(&server).await;
        assert_eq!((reply.status, reply.header("ratelimit")), (401, Some(r#""api";r=0;t=60"#)));
    }
}

#[tokio::test]
async fn in_shadow_mode_who_would_have_been_denied_makes_no_debt() {
    for by_limit in [false, true] {
        let clock = clock();
        let limit = Limit::new(window(2)).shadow(by_limit);
        let limiter = builder(&clock).limit("api", limit).build().unwrap();
        let tried = login(limiter.enforcer("api").unwrap().shadow(!by_limit)).await;
        for _ in 0..12 {
            assert_eq!(wrong(&tried).await.status, 401);
        }
        assert_eq!(wrong(&tried).await.header("ratelimit"), Some(r#""api";r=0;t=60"#));
        // There is as much in the next minute as in any.
        clock.advance(minutes(1));
        assert_eq!(left(&limiter, "api", ME).await, 2);
    }
}

/// The statuses of so many failed logins, all of which are looked at before one of them is charged.
async fn at_once(limiter: &Limiter, many: usize) -> Vec<u16> {
    let everybody = Arc::new(Barrier::new(many));
    let router = Router::new().fallback(async move || {
        everybody.wait().await;
        StatusCode::UNAUTHORIZED
    });
    let layer = RateLimitLayer::new(failed_logins(limiter.enforcer("api").unwrap()));
    let server = Server::router(router.layer(layer)).await;
    let mut tasks = JoinSet::new();
    for _ in 0..many {
        let address = server.address;
        tasks.spawn(async move { get_with(address, &[]).await.status });
    }
    // Whoever is turned away is missed by all the others.
    tokio::time::timeout(seconds(30), tasks.join_all()).await.expect("somebody was turned away")
}

#[tokio::test]
async fn every_one_of_several_limits_is_charged() {
    let limiter = builder(&clock()).limit("minute", window(3)).limit("other", window(9)).build().unwrap();
    let server = login(limiter.enforcer("minute").unwrap().and("other").unwrap()).await;
    assert_eq!(right(&server).await.header("ratelimit"), Some(r#""minute";r=3, "other";r=9"#));
    assert_eq!(wrong(&server).await.header("ratelimit"), Some(r#""minute";r=2;t=60, "other";r=8;t=60"#));
    for _ in 0..2 {
        wrong(&server).await;
    }
    let reply = wrong(&server).await;
    assert_eq!((reply.status, reply.header("ratelimit")), (429, Some(r#""minute";r=0;t=60, "other";r=6;t=60"#)));
}

#[tokio::test]
async fn headers_can_say_what_is_charged() {
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
async fn a_deny_list_is_looked_at_although_the_store_of_another_limit_is_dead() {
    let limiter = Limiter::builder().limit("open", window(9)).limit("listed", window(9)).deny("listed", [ME]).unwrap();
    let limiter = limiter.store(dead()).build().unwrap();
    for enforcer in [
        limiter.enforcer("open").unwrap().and("listed").unwrap(),
        limiter.enforcer("listed").unwrap().and("open").unwrap(),
    ] {
        assert_eq!(right(&login(enforcer).await).await.status, 403);
    }
}

#[tokio::test]
async fn a_charge_that_is_refused_says_nothing_about_coming_back() {
    let limiter = limiter(window(1).max_debt(0).unwrap());
    let barrier = Arc::new(Barrier::new(2));
    let handler = || async move {
        barrier.wait().await;
        StatusCode::UNAUTHORIZED
    };
    let layer = RateLimitLayer::new(failed_logins(limiter.enforcer("api").unwrap()));
    let server = Server::router(Router::new().fallback(handler).layer(layer)).await;
    let (first, second) = tokio::join!(wrong(&server), wrong(&server));
    for reply in [first, second] {
        assert_eq!((reply.status, reply.header("retry-after")), (401, None), "{reply:?}");
    }
}
