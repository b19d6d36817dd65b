//! Several limits on one request.

use axum::Router;
use serde_json::json;
use tidegate::enforce::Enforcer;
use tidegate::http::{HeaderStyle, LimitHeaders, RateLimit};
use tidegate::tower::RateLimitLayer;
use tidegate::{Key, Limiter, Quota, days, minutes};

use crate::clients::{self, Reply};
use crate::support::{LOOPBACK, Server, bucket, builder, clock, left, memory};
use crate::waiting_store::WaitingStore;

const FAMILIES: [HeaderStyle; 3] = [HeaderStyle::Ietf, HeaderStyle::Draft03, HeaderStyle::Legacy];

/// Limiters with two at once and `daily` a day, of which 16 hours are left: on an immediate store, and on one that waits.
fn two_limits(daily: u64) -> [Limiter; 2] {
    let daily = Quota::fixed_window(daily, days(1)).unwrap();
    let clock = clock();
    [builder(&clock), builder(&clock).store(WaitingStore::new(memory(&clock)))]
        .map(|builder| builder.limit("burst", bucket(2)).limit("daily", daily).build().unwrap())
}

fn burst_and_daily(limiter: &Limiter) -> Enforcer {
    limiter.enforcer("burst").unwrap().and("daily").unwrap()
}

fn with_all_families(enforcer: Enforcer) -> RateLimit {
    RateLimit::new(enforcer).headers(LimitHeaders::new(FAMILIES))
}

/// The headers of a family that reports the binding limit only.
fn binding_headers<'a>(reply: &'a Reply, prefix: &str) -> [&'a str; 3] {
    ["limit", "remaining", "reset"].map(|name| reply.header(&format!("{prefix}ratelimit-{name}")).unwrap())
}

#[tokio::test]
async fn every_limit_is_listed_and_the_binding_one_reported() {
    for limiter in two_limits(1_000) {
        let server = Server::behind(with_all_families(burst_and_daily(&limiter))).await;
        let policies = Some(r#""burst";q=2;w=60, "daily";q=1000;w=86400"#);
        let cases = [
            (200, r#""burst";r=1;t=30, "daily";r=999;t=57600"#, ["2", "1", "30"], None),
            (200, r#""burst";r=0;t=30, "daily";r=998;t=57600"#, ["2", "0", "60"], None),
            (429, r#""burst";r=0;t=30, "daily";r=998;t=57600"#, ["2", "0", "60"], Some("30")),
        ];
        for (status, limits, reported, retry_after) in cases {
            let reply = clients::get(server.address).await;
            assert_eq!((reply.status, reply.header("retry-after")), (status, retry_after));
            assert_eq!((reply.header("ratelimit-policy"), reply.header("ratelimit")), (policies, Some(limits)));
            assert_eq!((binding_headers(&reply, ""), binding_headers(&reply, "x-")), (reported, reported));
        }
    }
}

#[tokio::test]
async fn limit_with_the_least_left_binds_in_any_order() {
    for limiter in two_limits(1) {
        for enforcer in [burst_and_daily(&limiter), limiter.enforcer("daily").unwrap().and("burst").unwrap()] {
            let _ = limiter.reset("daily", LOOPBACK).await.unwrap();
            let _ = limiter.reset("burst", LOOPBACK).await.unwrap();
            let server = Server::behind(with_all_families(enforcer)).await;
            let reply = clients::get(server.address).await;
            assert_eq!((reply.status, binding_headers(&reply, "x-")), (200, ["1", "0", "57600"]));
            // Denied by one limit while the other has something left.
            let reply = clients::get(server.address).await;
            assert_eq!((reply.status, binding_headers(&reply, "x-")), (429, ["1", "0", "57600"]));
            assert_eq!(reply.problem()["violated-policies"], json!(["daily"]));
        }
    }
}

#[tokio::test]
async fn denied_request_consumes_nothing_of_other_limits() {
    let orders = [["burst", "daily"], ["daily", "burst"]];
    for (limiter, order) in orders.iter().flat_map(|order| two_limits(1_000).map(|limiter| (limiter, order))) {
        let server = Server::behind(limiter.enforcer(order[0]).unwrap().and(order[1]).unwrap()).await;
        for status in [200, 200, 429, 429, 429] {
            assert_eq!(clients::get(server.address).await.status, status);
        }
        assert_eq!((left(&limiter, "burst", LOOPBACK).await, left(&limiter, "daily", LOOPBACK).await), (0, 998));
    }
}

#[tokio::test]
async fn denial_names_every_violated_limit_and_the_longest_wait() {
    for limiter in two_limits(2) {
        let server = Server::behind(burst_and_daily(&limiter)).await;
        for status in [200, 200] {
            assert_eq!(clients::get(server.address).await.status, status);
        }
        let reply = clients::get(server.address).await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some("57600")));
        let problem = reply.problem();
        assert_eq!(problem["violated-policies"], json!(["burst", "daily"]));
        assert_eq!((&problem["retry_after_ms"], &problem["retryable"]), (&57_600_000.into(), &true.into()));
    }
}

#[tokio::test]
async fn cost_above_one_capacity_is_not_retryable() {
    for limiter in two_limits(1_000) {
        let server = Server::behind(RateLimit::new(burst_and_daily(&limiter)).cost(3)).await;
        let reply = clients::get(server.address).await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, None));
        assert_eq!(reply.problem()["violated-policies"], json!(["burst"]));
        assert_eq!(left(&limiter, "daily", LOOPBACK).await, 1_000);
    }
}

#[tokio::test]
async fn every_limit_can_have_its_own_name_quota_and_key() {
    for limiter in two_limits(1_000) {
        let enforcer = limiter.enforcer("burst").unwrap().with_policy_name("short").and("daily").unwrap().with_quota(
            // A premium user's.
            Quota::fixed_window(5, minutes(10)).unwrap(),
        );
        let limits = RateLimit::new(enforcer).key_each(|head| {
            let key = head.headers().get("key")?.to_str().ok()?;
            Some(vec![Key::from(key).into_owned(), Key::GLOBAL])
        });
        let server = Server::behind(limits).await;
        let reply = clients::get_with(server.address, &["key: a"]).await;
        assert_eq!(reply.header("ratelimit-policy"), Some(r#""short";q=2;w=60, "daily";q=5;w=600"#));
        assert_eq!(reply.header("ratelimit"), Some(r#""short";r=1;t=30, "daily";r=4;t=600"#));
        let reply = clients::get_with(server.address, &["key: b"]).await;
        assert_eq!(reply.header("ratelimit"), Some(r#""short";r=1;t=30, "daily";r=3;t=600"#));
    }
}

#[tokio::test]
async fn outer_layer_keeps_the_headers_of_an_inner_layer() {
    let limiter = builder(&clock()).limit("inner", bucket(1)).limit("outer", bucket(9)).build().unwrap();
    for (inside, outside) in [("inner", "outer"), ("outer", "inner")] {
        let _ = limiter.reset("inner", LOOPBACK).await.unwrap();
        let _ = limiter.reset("outer", LOOPBACK).await.unwrap();
        let layer = |limit| RateLimitLayer::new(with_all_families(limiter.enforcer(limit).unwrap()));
        let router = Router::new().fallback(|| async { "ok" }).layer(layer(inside)).layer(layer(outside));
        let server = Server::router(router).await;
        let reply = clients::get(server.address).await;
        let quotas = |name| if name == "inner" { r#""inner";r=0;t=60"# } else { r#""outer";r=8;t=7"# };
        assert_eq!(reply.headers("ratelimit"), [inside, outside].map(quotas));
        assert_eq!((binding_headers(&reply, ""), binding_headers(&reply, "x-")), (["1", "0", "60"], ["1", "0", "60"]));

        // The outer layer does not replace the denial of the inner one.
        let reply = clients::get(server.address).await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some("60")));
        assert_eq!(reply.headers("ratelimit")[0], quotas("inner"));
        assert_eq!((binding_headers(&reply, ""), binding_headers(&reply, "x-")), (["1", "0", "60"], ["1", "0", "60"]));
    }
}

/// The inner limit that denies is reported, even when less is left of the outer one.
#[tokio::test]
async fn outer_layer_keeps_the_denial_of_an_inner_layer() {
    let limiter = builder(&clock()).limit("inner", bucket(5)).limit("outer", bucket(3)).build().unwrap();
    let layer = |limit, cost| RateLimitLayer::new(with_all_families(limiter.enforcer(limit).unwrap()).cost(cost));
    let router = Router::new().fallback(|| async { "ok" }).layer(layer("inner", 3)).layer(layer("outer", 1));
    let server = Server::router(router).await;
    assert_eq!(clients::get(server.address).await.status, 200);
    let reply = clients::get(server.address).await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("12")));
    assert_eq!((binding_headers(&reply, ""), binding_headers(&reply, "x-")), (["5", "2", "36"], ["5", "2", "36"]));
}
