//! The fast path of most requests through the layer, and the cases that must leave it with equal results.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use axum::Router;
use tidegate::concurrency::Concurrency;
use tidegate::enforce::{Caller, Enforcer, Outcome};
use tidegate::http::{HeaderStyle, LimitHeaders, RateLimit, keys};
use tidegate::tower::{AdmissionLayer, RateLimitLayer};
use tidegate::{Key, Limit, Limiter, OnStoreError, millis, seconds};

use crate::clients::{self, RawClient};
use crate::support::{LOOPBACK, Server, bucket, builder, clock, dead_store, left, limiter, memory, window};
use crate::waiting_store::WaitingStore;

/// Returns the statuses of `requests` requests.
async fn statuses(limits: impl Into<RateLimit>, requests: usize) -> Vec<u16> {
    let server = Server::behind(limits).await;
    let mut statuses = Vec::new();
    for _ in 0..requests {
        statuses.push(clients::get(server.address).await.status);
    }
    statuses
}

/// Policies of one limit: with headers and without, by the client's address and by a key function.
const POLICIES: [fn(Enforcer) -> RateLimit; 4] = [
    RateLimit::new,
    |enforcer| RateLimit::new(enforcer).headers(LimitHeaders::new([])),
    |enforcer| RateLimit::new(enforcer).key(keys::client()),
    |enforcer| RateLimit::new(enforcer).key(keys::client()).headers(LimitHeaders::new([])),
];

#[tokio::test]
async fn replaced_limit_applies_to_the_next_request() {
    for policy in POLICIES {
        let limiter = limiter(window(1));
        let rate_limit = policy(limiter.enforcer("api").unwrap());
        assert_eq!(statuses(rate_limit.clone(), 2).await, [200, 429]);
        limiter.set_quota("api", window(4)).unwrap();
        assert_eq!(statuses(rate_limit.clone(), 4).await, [200, 200, 200, 429]);
        limiter.replace("api", Limit::new(window(4)).shadow(true)).unwrap();
        assert_eq!(statuses(rate_limit, 2).await, [200, 200]);
    }
}

#[tokio::test]
async fn enforcer_quota_overrides_the_limit_quota() {
    let limiter = limiter(window(1));
    for policy in POLICIES {
        let _ = limiter.reset("api", LOOPBACK).await.unwrap();
        let rate_limit = policy(limiter.enforcer("api").unwrap().with_quota(window(3)));
        assert_eq!(statuses(rate_limit, 4).await, [200, 200, 200, 429]);
    }
}

#[tokio::test]
async fn closed_limiter_admits_no_request() {
    let limiter = limiter(window(5));
    limiter.close().await;
    for policy in POLICIES {
        assert_eq!(statuses(policy(limiter.enforcer("api").unwrap()), 1).await, [503]);
    }
}

#[tokio::test]
async fn shadow_mode_counts_would_be_denials() {
    let limiter = limiter(window(2));
    for policy in POLICIES {
        let _ = limiter.reset("api", LOOPBACK).await.unwrap();
        assert_eq!(statuses(policy(limiter.enforcer("api").unwrap().shadow(true)), 3).await, [200, 200, 200]);
        assert_eq!(left(&limiter, "api", LOOPBACK).await, 0);
    }
}

/// The keys and addresses that a hook was called with.
type HookCalls = Arc<Mutex<Vec<(String, Option<IpAddr>)>>>;

/// A hook, and the record of its calls.
fn recording_hook() -> (HookCalls, impl Fn(&Caller<'_>, &Outcome) + Send + Sync + 'static) {
    let told = HookCalls::default();
    let hook = {
        let told = Arc::clone(&told);
        move |caller: &Caller<'_>, _: &Outcome| {
            let key = caller.key(0).unwrap().to_text().into_owned();
            told.lock().unwrap().push((key, caller.address().copied()));
        }
    };
    (told, hook)
}

/// Hooks and deny lists see the client's address, even when requests are counted by another key.
#[tokio::test]
async fn hooks_and_deny_lists_get_the_address_beside_a_key() {
    let address: IpAddr = LOOPBACK.parse().unwrap();
    for listed in [false, true] {
        let limits = Limiter::builder().limit("api", window(1));
        let limits = if listed { limits.deny("api", [LOOPBACK]).unwrap() } else { limits };
        let (told, hook) = recording_hook();
        let enforcer = limits.build().unwrap().enforcer("api").unwrap().on_limited(hook);
        let by_name = RateLimit::new(enforcer).key(|_| Some(Key::from_parts(["alice"])));
        assert_eq!(statuses(by_name, 2).await, if listed { [403, 403] } else { [200, 429] });
        let times = if listed { 2 } else { 1 };
        assert_eq!(*told.lock().unwrap(), vec![("alice".to_owned(), Some(address)); times]);
    }
}

#[tokio::test]
async fn error_hook_gets_the_key_and_address() {
    for policy in POLICIES {
        let closed = Limit::new(window(1)).on_store_error(OnStoreError::Closed);
        let limiter = Limiter::builder().limit("api", closed).store(dead_store()).build().unwrap();
        let (told, hook) = recording_hook();
        assert_eq!(statuses(policy(limiter.enforcer("api").unwrap().on_error(hook)), 1).await, [503]);
        assert_eq!(*told.lock().unwrap(), [(LOOPBACK.to_owned(), Some(LOOPBACK.parse().unwrap()))]);
    }
}

#[tokio::test]
async fn waiting_store_is_tried_once_per_request() {
    let store = WaitingStore::new(memory(&clock()));
    let attempts = Arc::clone(&store.attempts);
    let limiter = Limiter::builder().limit("api", window(1)).store(store).build().unwrap();
    for policy in POLICIES {
        let _ = limiter.reset("api", LOOPBACK).await.unwrap();
        attempts.store(0, Ordering::Relaxed);
        assert_eq!(statuses(policy(limiter.enforcer("api").unwrap()), 2).await, [200, 429]);
        // Once for each request: by the layer, before it waits.
        assert_eq!(attempts.load(Ordering::Relaxed), 2);
    }
}

/// After its one warning of an untrusted proxy, the layer looks at the peer only.
#[tokio::test]
async fn untrusted_peer_is_counted_by_its_address() {
    let limiter = limiter(window(6));
    for headers in [LimitHeaders::default(), LimitHeaders::new([])] {
        let _ = limiter.reset("api", LOOPBACK).await.unwrap();
        let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).headers(headers)).await;
        // The first forged header uses up the one warning.
        for (asked, forged) in ["198.51.100.1", "198.51.100.2", "198.51.100.3"].into_iter().enumerate() {
            let header = format!("x-forwarded-for: {forged}");
            assert_eq!(clients::get_with(server.address, &[&header]).await.status, 200);
            assert_eq!(clients::get(server.address).await.status, 200);
            assert_eq!(left(&limiter, "api", forged).await, 6);
            assert_eq!(left(&limiter, "api", LOOPBACK).await, 6 - 2 * (asked as u64 + 1));
        }
        assert_eq!(clients::get_with(server.address, &["x-forwarded-for: 198.51.100.4"]).await.status, 429);
    }
}

#[tokio::test]
async fn headers_are_exact_for_every_request() {
    let clock = clock();
    let limiter = Limiter::builder().limit("api", bucket(4)).store(memory(&clock)).build().unwrap();
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    let mut connection = RawClient::connect(server.address).await;
    // The first request fills a cache for later ones.
    for (remaining, next) in [(3, 15), (2, 15), (1, 15), (0, 15)] {
        let reply = connection.get("/", &[]).await;
        let limit = format!("ratelimit: \"api\";r={remaining};t={next}");
        assert_eq!(reply.limit_headers(), ["ratelimit-policy: \"api\";q=4;w=60", &limit]);
    }
    assert_eq!(connection.get("/", &[]).await.status, 429);
    clock.advance(seconds(16));
    let reply = connection.get("/", &[]).await;
    assert_eq!(reply.limit_headers(), ["ratelimit-policy: \"api\";q=4;w=60", "ratelimit: \"api\";r=0;t=14"]);
}

/// A `map_response` that changes nothing forces the long path.
#[tokio::test]
async fn every_path_answers_a_denial_alike() {
    let clock = clock();
    let limits = || builder(&clock).limit("api", bucket(1)).limit("\"quoted\"", window(1)).limit("100 %", window(2));
    let limiter = limits().build().unwrap();
    let listed = limits().deny("api", [LOOPBACK]).unwrap().build().unwrap();
    let api = || RateLimit::new(limiter.enforcer("api").unwrap());
    let enforcer = || limiter.enforcer("api").unwrap();
    let cases = [
        ("as it comes", api()),
        ("a name of its own", RateLimit::new(enforcer().with_policy_name("a \"b\" \u{1f30a}"))),
        ("a name that is quoted", RateLimit::new(limiter.enforcer("\"quoted\"").unwrap())),
        ("a window", RateLimit::new(limiter.enforcer("100 %").unwrap())),
        ("two limits", RateLimit::new(enforcer().and("100 %").unwrap())),
        ("two families", api().headers(LimitHeaders::new([HeaderStyle::Ietf, HeaderStyle::Legacy]))),
        ("no headers", api().headers(LimitHeaders::new([]))),
        ("a key of its own", api().key(keys::global())),
        ("in shadow mode", RateLimit::new(enforcer().shadow(true))),
        ("on a deny list", RateLimit::new(listed.enforcer("api").unwrap())),
    ];
    for (case, rate_limit) in cases {
        let router = || Router::new().fallback(|| async { "ok" });
        let guarded = AdmissionLayer::new(Concurrency::fixed(9)).limits(rate_limit.clone());
        let guarded = Server::router(router().layer(guarded)).await;
        let long = Server::behind(rate_limit.clone().map_response(|_, response| response)).await;
        let short = Server::behind(rate_limit).await;
        for span in [seconds(0), millis(500), millis(20_500)] {
            clock.advance(span);
            // The first request may be admitted, and fills a cache for later ones.
            for _ in 0..2 {
                clients::get(short.address).await;
            }
            let long = clients::get(long.address).await;
            for (way, server) in [("short", &short), ("guarded", &guarded)] {
                let reply = clients::get(server.address).await;
                let (told, expected) = ((reply.status, &reply.lines), (long.status, &long.lines));
                assert_eq!((told, &reply.body), (expected, &long.body), "{case}, {way}, after {span:?}");
            }
        }
    }
}

/// Every denial computes its own wait.
#[tokio::test]
async fn later_denial_has_a_shorter_wait() {
    let clock = clock();
    let limiter = builder(&clock).limit("api", bucket(1)).build().unwrap();
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    assert_eq!(clients::get(server.address).await.status, 200);
    for (span, seconds, wait) in [(0, 60, 60_000), (0, 60, 60_000), (20_500, 40, 39_500)] {
        clock.advance(millis(span));
        let reply = clients::get(server.address).await;
        let (limit, retry) = (format!("ratelimit: \"api\";r=0;t={seconds}"), format!("retry-after: {seconds}"));
        assert_eq!(reply.limit_headers(), ["ratelimit-policy: \"api\";q=1;w=60", &limit, &retry]);
        assert_eq!((reply.status, &reply.problem()["retry_after_ms"]), (429, &wait.into()));
    }
}

#[tokio::test]
async fn map_response_applies_to_every_denial() {
    let limiter = limiter(window(1));
    let rate_limit = RateLimit::new(limiter.enforcer("api").unwrap()).map_response(|outcome, mut response| {
        *response.body_mut() = format!("wait {:?}", outcome.retry_after().unwrap());
        response
    });
    let server = Server::behind(rate_limit).await;
    assert_eq!(clients::get(server.address).await.status, 200);
    for _ in 0..3 {
        let reply = clients::get(server.address).await;
        assert_eq!((reply.status, &*reply.body), (429, "wait 60s"));
    }
}

/// Headers that were computed for one limit are not used for another.
#[tokio::test]
async fn limits_with_shared_header_settings_keep_their_own_headers() {
    let headers = LimitHeaders::default();
    let limits = [("first", 5), ("second", 5), ("third", 7), ("fourth", 7), ("fifth", 9)];
    let mut servers = Vec::new();
    for (name, rate) in limits {
        let limiter = builder(&clock()).limit(name, window(rate)).build().unwrap();
        servers.push(Server::behind(RateLimit::new(limiter.enforcer(name).unwrap()).headers(headers.clone())).await);
    }
    for asked in 1..4 {
        for (server, (name, rate)) in servers.iter().zip(limits) {
            let reply = clients::get(server.address).await;
            let policy = format!("ratelimit-policy: \"{name}\";q={rate};w=60");
            let limit = format!("ratelimit: \"{name}\";r={};t=60", rate - asked);
            assert_eq!(reply.limit_headers(), [policy, limit]);
        }
    }
}

#[tokio::test]
async fn headers_of_both_layers_are_listed() {
    let layer = |name: &'static str, rate| {
        let limiter = builder(&clock()).limit(name, window(rate)).build().unwrap();
        RateLimitLayer::new(limiter.enforcer(name).unwrap())
    };
    let router = Router::new().fallback(|| async { "ok" }).layer(layer("inner", 5)).layer(layer("outer", 9));
    let server = Server::router(router).await;
    for asked in 1..4 {
        let reply = clients::get(server.address).await;
        let said = |name: &str, rate: u64| format!("\"{name}\";r={};t=60", rate - asked);
        assert_eq!(reply.headers("ratelimit"), [said("inner", 5), said("outer", 9)]);
        assert_eq!(reply.headers("ratelimit-policy"), ["\"inner\";q=5;w=60", "\"outer\";q=9;w=60"]);
    }
}
