//! Several limits on one request.

use axum::Router;
use serde_json::json;
use tidegate::enforce::Enforcer;
use tidegate::http::{HeaderStyle, LimitHeaders, RateLimit};
use tidegate::tower::RateLimitLayer;
use tidegate::{Key, Limiter, Quota, days, minutes};

use crate::clients::{self, Reply};
use crate::elsewhere::Elsewhere;
use crate::support::{ME, Server, bucket, builder, clock, left, memory};

const FAMILIES: [HeaderStyle; 3] = [HeaderStyle::Ietf, HeaderStyle::Draft03, HeaderStyle::Legacy];

/// Two at once and so many a day, which has 16 hours to go: of a store that answers where it is asked, and of one that is
/// waited for.
fn two_limits(daily: u64) -> [Limiter; 2] {
    let daily = Quota::fixed_window(daily, days(1)).unwrap();
    let clock = clock();
    [builder(&clock), builder(&clock).store(Elsewhere::new(memory(&clock)))]
        .map(|builder| builder.limit("burst", bucket(2)).limit("daily", daily).build().unwrap())
}

fn both(limiter: &Limiter) -> Enforcer {
    limiter.enforcer("burst").unwrap().and("daily").unwrap()
}

fn with_all_families(enforcer: Enforcer) -> RateLimit {
    RateLimit::new(enforcer).headers(LimitHeaders::new(FAMILIES))
}

/// The lines of the families that speak of one limit only.
fn binding<'a>(reply: &'a Reply, prefix: &str) -> [&'a str; 3] {
    ["limit", "remaining", "reset"].map(|name| reply.header(&format!("{prefix}ratelimit-{name}")).unwrap())
}

#[tokio::test]
async fn every_limit_is_listed_and_the_binding_one_reported() {
    for limiter in two_limits(1_000) {
        let server = Server::behind(with_all_families(both(&limiter))).await;
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
            assert_eq!((binding(&reply, ""), binding(&reply, "x-")), (reported, reported));
        }
    }
}

#[tokio::test]
async fn the_one_with_the_least_left_binds_wherever_it_stands() {
    for limiter in two_limits(1) {
        for enforcer in [both(&limiter), limiter.enforcer("daily").unwrap().and("burst").unwrap()] {
            let _ = limiter.reset("daily", ME).await.unwrap();
            let _ = limiter.reset("burst", ME).await.unwrap();
            let server = Server::behind(with_all_families(enforcer)).await;
            let reply = clients::get(server.address).await;
            assert_eq!((reply.status, binding(&reply, "x-")), (200, ["1", "0", "57600"]));
            // Denied by one limit while the other has something left.
            let reply = clients::get(server.address).await;
            assert_eq!((reply.status, binding(&reply, "x-")), (429, ["1", "0", "57600"]));
            assert_eq!(reply.problem()["violated-policies"], json!(["daily"]));
        }
    }
}

#[tokio::test]
async fn a_denied_request_burns_nothing_of_the_other_limits() {
    let orders = [["burst", "daily"], ["daily", "burst"]];
    for (limiter, order) in orders.iter().flat_map(|order| two_limits(1_000).map(|limiter| (limiter, order))) {
        let server = Server::behind(limiter.enforcer(order[0]).unwrap().and(order[1]).unwrap()).await;
        for status in [200, 200, 429, 429, 429] {
            assert_eq!(clients::get(server.address).await.status, status);
        }
        assert_eq!((left(&limiter, "burst", ME).await, left(&limiter, "daily", ME).await), (0, 998));
    }
}

#[tokio::test]
async fn all_that_deny_are_named_and_the_longest_wait_counts() {
    for limiter in two_limits(2) {
        let server = Server::behind(both(&limiter)).await;
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
async fn one_that_can_never_admit_it_makes_the_whole_not_worth_a_retry() {
    for limiter in two_limits(1_000) {
        let server = Server::behind(RateLimit::new(both(&limiter)).cost(3)).await;
        let reply = clients::get(server.address).await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, None));
        assert_eq!(reply.problem()["violated-policies"], json!(["burst"]));
        assert_eq!(left(&limiter, "daily", ME).await, 1_000);
    }
}

#[tokio::test]
async fn each_limit_can_have_a_name_a_quota_and_a_key_of_its_own() {
    for limiter in two_limits(1_000) {
        let enforcer = limiter.enforcer("burst").unwrap().with_policy_name("short").and("daily").unwrap().with_quota(
            // A premium user's.
            Quota::fixed_window(5, minutes(10)).unwrap(),
        );
        let limits = RateLimit::new(enforcer).key_each(|incoming| {
            let key = incoming.headers().get("key")?.to_str().ok()?;
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
async fn one_layer_above_another_hides_nothing_of_it() {
    let limiter = builder(&clock()).limit("inner", bucket(1)).limit("outer", bucket(9)).build().unwrap();
    for (inside, outside) in [("inner", "outer"), ("outer", "inner")] {
        let _ = limiter.reset("inner", ME).await.unwrap();
        let _ = limiter.reset("outer", ME).await.unwrap();
        let layer = |limit| RateLimitLayer::new(with_all_families(limiter.enforcer(limit).unwrap()));
        let router = Router::new().fallback(|| async { "ok" }).layer(layer(inside)).layer(layer(outside));
        let server = Server::router(router).await;
        let reply = clients::get(server.address).await;
        let quotas = |name| if name == "inner" { r#""inner";r=0;t=60"# } else { r#""outer";r=8;t=7"# };
        assert_eq!(reply.headers("ratelimit"), [inside, outside].map(quotas));
        assert_eq!((binding(&reply, ""), binding(&reply, "x-")), (["1", "0", "60"], ["1", "0", "60"]));

        // The denial of the one inside is not what the one outside says.
        let reply = clients::get(server.address).await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some("60")));
        assert_eq!(reply.headers("ratelimit")[0], quotas("inner"));
        assert_eq!((binding(&reply, ""), binding(&reply, "x-")), (["1", "0", "60"], ["1", "0", "60"]));
    }
}

/// What an inner layer denies by, it says, whatever is left of an outer one.
#[tokio::test]
async fn one_layer_above_another_leaves_its_denial_as_it_is() {
    let limiter = builder(&clock()).limit("inner", bucket(5)).limit("outer", bucket(3)).build().unwrap();
    let layer = |limit, cost| RateLimitLayer::new(with_all_families(limiter.enforcer(limit).unwrap()).cost(cost));
    let router = Router::new().fallback(|| async { "ok" }).layer(layer("inner", 3)).layer(layer("outer", 1));
    let server = Server::router(router).await;
    assert_eq!(clients::get(server.address).await.status, 200);
    let reply = clients::get(server.address).await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("12")));
    assert_eq!((binding(&reply, ""), binding(&reply, "x-")), (["5", "2", "36"], ["5", "2", "36"]));
}
