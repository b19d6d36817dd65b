//! Most requests take the shortest way through the layer. What does not, ends up at the same place.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use axum::Router;
use tidegate::concurrency::Concurrency;
use tidegate::enforce::{Caller, Enforcer, Outcome};
use tidegate::http::{HeaderStyle, LimitHeaders, RateLimit, keys};
use tidegate::tower::{AdmissionLayer, RateLimitLayer};
use tidegate::{Key, Limit, Limiter, OnStoreError, millis, seconds};

use crate::clients::{self, Raw};
use crate::elsewhere::Elsewhere;
use crate::support::{ME, Server, bucket, builder, clock, dead, left, limiter, memory, window};

/// The statuses of so many requests.
async fn statuses(limits: impl Into<RateLimit>, requests: usize) -> Vec<u16> {
    let server = Server::behind(limits).await;
    let mut statuses = Vec::new();
    for _ in 0..requests {
        statuses.push(clients::get(server.address).await.status);
    }
    statuses
}

/// The same limits, with headers and without, for clients by their address as it comes and as a key function says.
const WAYS: [fn(Enforcer) -> RateLimit; 4] = [
    RateLimit::new,
    |enforcer| RateLimit::new(enforcer).headers(LimitHeaders::new([])),
    |enforcer| RateLimit::new(enforcer).key(keys::client()),
    |enforcer| RateLimit::new(enforcer).key(keys::client()).headers(LimitHeaders::new([])),
];

#[tokio::test]
async fn a_limit_that_is_replaced_is_met_as_it_is_now() {
    for way in WAYS {
        let limiter = limiter(window(1));
        let rate_limit = way(limiter.enforcer("api").unwrap());
        assert_eq!(statuses(rate_limit.clone(), 2).await, [200, 429]);
        limiter.set_quota("api", window(4)).unwrap();
        assert_eq!(statuses(rate_limit.clone(), 4).await, [200, 200, 200, 429]);
        limiter.replace("api", Limit::new(window(4)).shadow(true)).unwrap();
        assert_eq!(statuses(rate_limit, 2).await, [200, 200]);
    }
}

#[tokio::test]
async fn an_enforcers_own_quota_counts_in_place_of_the_limits() {
    let limiter = limiter(window(1));
    for way in WAYS {
        let _ = limiter.reset("api", ME).await.unwrap();
        let rate_limit = way(limiter.enforcer("api").unwrap().with_quota(window(3)));
        assert_eq!(statuses(rate_limit, 4).await, [200, 200, 200, 429]);
    }
}

#[tokio::test]
async fn a_limiter_that_is_closed_admits_nobody() {
    let limiter = limiter(window(5));
    limiter.close().await;
    for way in WAYS {
        assert_eq!(statuses(way(limiter.enforcer("api").unwrap()), 1).await, [503]);
    }
}

#[tokio::test]
async fn what_would_have_been_denied_is_counted_in_shadow_mode() {
    let limiter = limiter(window(2));
    for way in WAYS {
        let _ = limiter.reset("api", ME).await.unwrap();
        assert_eq!(statuses(way(limiter.enforcer("api").unwrap().shadow(true)), 3).await, [200, 200, 200]);
        assert_eq!(left(&limiter, "api", ME).await, 0);
    }
}

/// Who was told of: keys and addresses.
type Told = Arc<Mutex<Vec<(String, Option<IpAddr>)>>>;

/// A hook, and what it is told.
fn listening() -> (Told, impl Fn(&Caller<'_>, &Outcome) + Send + Sync + 'static) {
    let told = Told::default();
    let hook = {
        let told = Arc::clone(&told);
        move |caller: &Caller<'_>, _: &Outcome| {
            let key = caller.key(0).unwrap().to_text().into_owned();
            told.lock().unwrap().push((key, caller.address().copied()));
        }
    };
    (told, hook)
}

/// Who is told of a denial is told by whom, and a deny list sees the address, whatever a request is counted under.
#[tokio::test]
async fn hooks_and_deny_lists_know_the_address_beside_a_key() {
    let address: IpAddr = ME.parse().unwrap();
    for listed in [false, true] {
        let limits = Limiter::builder().limit("api", window(1));
        let limits = if listed { limits.deny("api", [ME]).unwrap() } else { limits };
        let (told, hook) = listening();
        let enforcer = limits.build().unwrap().enforcer("api").unwrap().on_limited(hook);
        let by_name = RateLimit::new(enforcer).key(|_| Some(Key::from_parts(["alice"])));
        assert_eq!(statuses(by_name, 2).await, if listed { [403, 403] } else { [200, 429] });
        let times = if listed { 2 } else { 1 };
        assert_eq!(*told.lock().unwrap(), vec![("alice".to_owned(), Some(address)); times]);
    }
}

/// The same of a store that is broken.
#[tokio::test]
async fn who_is_told_of_a_broken_store_is_told_by_whom() {
    for way in WAYS {
        let closed = Limit::new(window(1)).on_store_error(OnStoreError::Closed);
        let limiter = Limiter::builder().limit("api", closed).store(dead()).build().unwrap();
        let (told, hook) = listening();
        assert_eq!(statuses(way(limiter.enforcer("api").unwrap().on_error(hook)), 1).await, [503]);
        assert_eq!(*told.lock().unwrap(), [(ME.to_owned(), Some(ME.parse().unwrap()))]);
    }
}

#[tokio::test]
async fn a_store_that_has_to_be_waited_for_is_not_asked_again_and_again() {
    let store = Elsewhere::new(memory(&clock()));
    let asked = Arc::clone(&store.asked);
    let limiter = Limiter::builder().limit("api", window(1)).store(store).build().unwrap();
    for way in WAYS {
        let _ = limiter.reset("api", ME).await.unwrap();
        asked.store(0, Ordering::Relaxed);
        assert_eq!(statuses(way(limiter.enforcer("api").unwrap()), 2).await, [200, 429]);
        // Once for each request: by the layer, which then waits.
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}

/// Once it was told of a proxy that nobody trusts, the layer looks at the peer and at nothing else. So does whoever asks.
#[tokio::test]
async fn a_peer_is_counted_under_its_address_however_that_is_found() {
    let limiter = limiter(window(6));
    for headers in [LimitHeaders::default(), LimitHeaders::new([])] {
        let _ = limiter.reset("api", ME).await.unwrap();
        let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).headers(headers)).await;
        // The first is looked at, and uses up all looks.
        for (asked, forged) in ["198.51.100.1", "198.51.100.2", "198.51.100.3"].into_iter().enumerate() {
            let header = format!("x-forwarded-for: {forged}");
            assert_eq!(clients::get_with(server.address, &[&header]).await.status, 200);
            assert_eq!(clients::get(server.address).await.status, 200);
            assert_eq!(left(&limiter, "api", forged).await, 6);
            assert_eq!(left(&limiter, "api", ME).await, 6 - 2 * (asked as u64 + 1));
        }
        assert_eq!(clients::get_with(server.address, &["x-forwarded-for: 198.51.100.4"]).await.status, 429);
    }
}

#[tokio::test]
async fn who_is_told_again_is_told_the_same() {
    let clock = clock();
    let limiter = Limiter::builder().limit("api", bucket(4)).store(memory(&clock)).build().unwrap();
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    let mut connection = Raw::connect(server.address).await;
    // The first makes what the later ones find.
    for (remaining, next) in [(3, 15), (2, 15), (1, 15), (0, 15)] {
        let reply = connection.get("/", &[]).await;
        let limit = format!("ratelimit: \"api\";r={remaining};t={next}");
        assert_eq!(reply.told(), ["ratelimit-policy: \"api\";q=4;w=60", &limit]);
    }
    assert_eq!(connection.get("/", &[]).await.status, 429);
    clock.advance(seconds(16));
    let reply = connection.get("/", &[]).await;
    assert_eq!(reply.told(), ["ratelimit-policy: \"api\";q=4;w=60", "ratelimit: \"api\";r=0;t=14"]);
}

/// A service that wants to change a denial, and does not, is shown one that was made by the long way.
#[tokio::test]
async fn a_denial_is_the_same_by_whichever_way() {
    let clock = clock();
    let limits = || builder(&clock).limit("api", bucket(1)).limit("\"quoted\"", window(1)).limit("100 %", window(2));
    let limiter = limits().build().unwrap();
    let listed = limits().deny("api", [ME]).unwrap().build().unwrap();
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
            // The first may be admitted, and make what the later ones find.
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

/// What a denial says of the time is that of each.
#[tokio::test]
async fn who_is_turned_away_later_is_told_to_wait_for_less() {
    let clock = clock();
    let limiter = builder(&clock).limit("api", bucket(1)).build().unwrap();
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    assert_eq!(clients::get(server.address).await.status, 200);
    for (span, seconds, wait) in [(0, 60, 60_000), (0, 60, 60_000), (20_500, 40, 39_500)] {
        clock.advance(millis(span));
        let reply = clients::get(server.address).await;
        let (limit, retry) = (format!("ratelimit: \"api\";r=0;t={seconds}"), format!("retry-after: {seconds}"));
        assert_eq!(reply.told(), ["ratelimit-policy: \"api\";q=1;w=60", &limit, &retry]);
        assert_eq!((reply.status, &reply.problem()["retry_after_ms"]), (429, &wait.into()));
    }
}

/// However often a limit has denied, a denial is answered as the service wants.
#[tokio::test]
async fn who_is_turned_away_again_is_answered_as_the_service_wants() {
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

/// What was worked out for the first limit that was told of is no other's.
#[tokio::test]
async fn limits_that_share_their_headers_are_told_apart() {
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
            assert_eq!(reply.told(), [policy, limit]);
        }
    }
}

/// A layer above and one below, each of which says its own.
#[tokio::test]
async fn what_a_layer_further_in_has_said_stays() {
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
