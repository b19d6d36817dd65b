//! What is answered to whom there is no room for, and what teaches nobody anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::routing::get;
use tidegate::concurrency::{DistributedConcurrency, FairConcurrency, PerKey, Priority};
use tidegate::enforce::{ConcurrencyGuard, ConcurrencyGuards};
use tidegate::http::{HeaderStyle, LimitHeaders, RateLimit};
use tidegate::tower::AdmissionLayer;
use tidegate::{Limit, Quota, millis, seconds};
use tower::util::MapResponse;
use tower::{Layer, ServiceExt};

use super::{DONE, Watched};
use crate::clients::{Raw, get as get_from, http1, http2, send};
use crate::support::{ME, Server, bucket, builder, clock, left, limiter, until, waiting_limiter};

async fn serve(layer: AdmissionLayer) -> Server {
    Server::router(Router::new().fallback(|| async { "ok" }).layer(layer)).await
}

#[tokio::test]
async fn too_many_of_everybody_is_503_with_a_hint() {
    let watched = Watched::new(1);
    let server = serve(AdmissionLayer::new(watched.pool.clone())).await;
    let held = watched.pool.try_acquire().unwrap();
    let reply = get_from(server.address).await;
    assert_eq!(reply.status, 503);
    assert_eq!(reply.header("retry-after"), Some("1"));
    let problem = reply.problem();
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
    assert_eq!((problem["status"].as_u64(), problem["retryable"].as_bool()), (Some(503), Some(true)));
    assert_eq!(problem["retry_after_ms"], 1_000);
    drop(held);
    assert_eq!(get_from(server.address).await.status, 200);
    assert_eq!(watched.told().await, [DONE], "who was turned away has done no work");
}

#[tokio::test]
async fn whoever_it_is_may_come_in_where_nobody_is_counted() {
    let from_nobody = |layer: AdmissionLayer| async {
        let app = Router::new().fallback(|| async { "ok" }).layer(layer);
        app.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap().status()
    };
    let watched = Watched::new(1);
    assert_eq!(from_nobody(AdmissionLayer::new(watched.pool.clone())).await, 200);
    // But not where each is to have permits of its own, or a limit.
    assert_eq!(from_nobody(AdmissionLayer::new(PerKey::new(1))).await, 500);
    let limits = limiter(bucket(9));
    assert_eq!(
        from_nobody(AdmissionLayer::new(watched.pool.clone()).limits(limits.enforcer("api").unwrap())).await,
        500
    );
}

#[tokio::test]
async fn a_refusal_of_head_has_no_body() {
    let watched = Watched::new(1);
    let layer = AdmissionLayer::new(watched.pool.clone());
    let app = layer.layer(Router::new().fallback(|| async { "ok" }).with_state(()));
    let server = Server::service(MapResponse::new(app, |response: Response<_>| response.map(Body::new))).await;
    let _held = watched.pool.try_acquire().unwrap();
    for client in [http1(), http2()] {
        let refused = send(client.get(server.url("/"))).await;
        let head = send(client.head(server.url("/"))).await;
        assert_eq!((head.status, &*head.body), (503, ""));
        assert_eq!(head.header("content-length"), Some(&*refused.body.len().to_string()));
    }
}

#[tokio::test]
async fn too_many_of_one_client_is_429_with_a_hint() {
    let keys = PerKey::new(1);
    let settings = RateLimit::unlimited().headers(LimitHeaders::new([HeaderStyle::Ietf, HeaderStyle::Legacy]));
    let server = serve(AdmissionLayer::new(keys.clone()).limits(settings)).await;
    let held = keys.try_acquire(ME).unwrap();
    let reply = get_from(server.address).await;
    assert_eq!(reply.status, 429);
    assert_eq!(
        reply.told(),
        [
            "ratelimit-policy: \"concurrency\";q=1",
            "ratelimit: \"concurrency\";r=0;t=1",
            "x-ratelimit-limit: 1",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 1",
            "retry-after: 1",
        ]
    );
    assert_eq!(reply.problem()["violated-policies"][0], "concurrency");
    drop(held);
    let reply = get_from(server.address).await;
    assert_eq!((reply.status, reply.told().len()), (200, 0), "without limits there is nothing to tell of");
    assert_eq!(keys.keys(), 0);
}

#[tokio::test]
async fn a_limit_that_turns_away_gives_the_permit_back_and_teaches_nothing() {
    for limiter in [limiter(bucket(1)), waiting_limiter(bucket(1))] {
        let watched = Watched::new(5);
        let layer = AdmissionLayer::new(watched.pool.clone()).limits(limiter.enforcer("api").unwrap());
        let server = serve(layer).await;
        assert_eq!(get_from(server.address).await.status, 200);
        let denied = get_from(server.address).await;
        assert_eq!(denied.status, 429);
        assert_eq!(denied.header("ratelimit"), Some("\"api\";r=0;t=60"));
        assert_eq!(watched.told().await, [DONE]);
    }
}

#[tokio::test]
async fn who_does_not_get_in_spends_nothing_of_its_limits() {
    let (watched, limiter) = (Watched::new(1), limiter(bucket(3)));
    let server = serve(AdmissionLayer::new(watched.pool.clone()).limits(limiter.enforcer("api").unwrap())).await;
    let held = watched.pool.try_acquire().unwrap();
    assert_eq!(get_from(server.address).await.status, 503);
    assert_eq!(left(&limiter, "api", ME).await, 3);
    drop(held);
    assert_eq!(get_from(server.address).await.status, 200);
    assert_eq!(left(&limiter, "api", ME).await, 2);
}

#[tokio::test]
async fn critical_requests_get_in_where_others_do_not_and_some_are_left_alone() {
    let watched = Watched::new(2);
    let pool = tidegate::concurrency::Concurrency::fixed(2).reserve(50);
    let layer = AdmissionLayer::new(ConcurrencyGuards::new().and(pool.clone()).and(watched.pool.clone()))
        .limits(RateLimit::unlimited().skip(|incoming| incoming.uri().path() == "/health"))
        .priority(|incoming| match incoming.uri().path() {
            "/login" => Priority::Critical,
            _ => Priority::Default,
        });
    let server = serve(layer).await;
    let held = pool.try_acquire().unwrap();
    let mut connection = Raw::connect(server.address).await;
    assert_eq!(connection.get("/", &[]).await.status, 503);
    assert_eq!(connection.get("/login", &[]).await.status, 200);
    let last = pool.try_acquire_as(Priority::Critical).unwrap();
    assert_eq!(connection.get("/login", &[]).await.status, 503);
    assert_eq!(connection.get("/health", &[]).await.status, 200, "left alone");
    drop((held, last));
    assert_eq!(watched.told().await, [DONE], "what the first guard refuses, the second does not see");
    assert_eq!(pool.in_flight(), 0);
}

#[tokio::test]
async fn how_much_a_request_matters_may_be_by_its_client() {
    let pool = tidegate::concurrency::Concurrency::fixed(2).reserve(50);
    let layer = AdmissionLayer::new(pool.clone()).priority(|incoming| match incoming.client() {
        Some(client) if client.address().is_loopback() => Priority::Critical,
        _ => Priority::Default,
    });
    let server = serve(layer).await;
    let _held = pool.try_acquire().unwrap();
    assert_eq!(Raw::connect(server.address).await.get("/", &[]).await.status, 200);
}

/// The attribute's own refusal is an answer of the handler, and still no work, whatever the handler makes of it.
#[cfg(feature = "macros")]
#[tokio::test]
async fn a_handler_whose_attribute_turns_away_teaches_nothing() {
    struct Own;
    impl From<tidegate::attribute::LimitError> for Own {
        fn from(_: tidegate::attribute::LimitError) -> Self {
            Own
        }
    }
    impl axum::response::IntoResponse for Own {
        fn into_response(self) -> axum::response::Response {
            axum::http::StatusCode::IM_A_TEAPOT.into_response()
        }
    }
    #[tidegate::limit("own", key = "all")]
    async fn limited() -> Result<&'static str, tidegate::attribute::LimitError> {
        Ok("ok")
    }
    #[tidegate::limit("own", key = "own")]
    async fn with_own_error() -> Result<&'static str, Own> {
        Ok("ok")
    }
    for (handler, refused) in [(get(limited), 429), (get(with_own_error), 418)] {
        let limiter = builder(&clock()).limit("api", bucket(100)).limit("own", bucket(1)).build().unwrap();
        let watched = Watched::new(5);
        let layer = AdmissionLayer::new(watched.pool.clone()).limits(limiter.enforcer("api").unwrap());
        let server = Server::router(Router::new().route("/", handler).layer(layer)).await;
        assert_eq!(get_from(server.address).await.status, 200);
        assert_eq!(get_from(server.address).await.status, refused);
        assert_eq!(watched.told().await, [DONE]);
    }
}

/// It has no work to show for it that would say how busy the others are, but it does send something.
#[cfg(feature = "macros")]
#[tokio::test]
async fn a_handler_that_goes_on_after_a_refusal_is_in_flight_until_its_end() {
    #[tidegate::limit("own", key = "all")]
    async fn extra() -> Result<(), tidegate::attribute::LimitError> {
        Ok(())
    }
    for hangs_up in [false, true] {
        let limiter = builder(&clock()).limit("api", bucket(100)).limit("own", bucket(1)).build().unwrap();
        assert!(limiter.limit("own", "all").try_now().unwrap().allowed());
        let (writer, body) = super::written();
        let body = Arc::new(std::sync::Mutex::new(Some(body)));
        let handler = move || async move {
            assert!(extra().await.is_err());
            let body = body.lock().unwrap().take();
            body.expect("asked once")
        };
        let watched = Watched::new(1);
        let layer = AdmissionLayer::new(watched.pool.clone()).limits(limiter.enforcer("api").unwrap());
        let server = Server::router(Router::new().route("/", get(handler)).layer(layer)).await;
        let mut response = http1().get(server.url("/")).send().await.unwrap();
        writer.send("some").unwrap();
        assert_eq!(response.chunk().await.unwrap().unwrap(), "some");
        assert_eq!(watched.in_flight(), 1);
        if hangs_up {
            drop(response);
        } else {
            drop(writer);
            assert_eq!(response.bytes().await.unwrap(), "");
        }
        assert!(watched.told().await.is_empty(), "{hangs_up}");
    }
}

#[tokio::test]
async fn cloned_services_share_their_permits() {
    let watched = Watched::new(1);
    let layer = AdmissionLayer::new(watched.pool.clone());
    // Each route gets a clone of the layer, and each connection clones of the services.
    let router = Router::new()
        .route("/a", get(|| async { "a" }).layer(layer.clone()))
        .route("/b", get(|| async { "b" }).layer(layer));
    let server = Server::router(router).await;
    let held = watched.pool.try_acquire().unwrap();
    for path in ["/a", "/b"] {
        assert_eq!(Raw::connect(server.address).await.get(path, &[]).await.status, 503);
    }
    drop(held);
}

/// One slot: whoever finds it taken waits for it, for as long as the layer says.
#[tokio::test]
async fn tenants_wait_for_their_turn_and_no_longer_than_they_may() {
    let fair = FairConcurrency::builder(1).build();
    let within = |within| AdmissionLayer::new(ConcurrencyGuard::from((fair.clone(), within)));
    let (hasty, server) = (serve(within(millis(20))).await, serve(within(seconds(30))).await);
    let held = fair.try_acquire("other").unwrap();
    let reply = get_from(hasty.address).await;
    assert_eq!(reply.status, 503);
    assert!(reply.problem()["detail"].as_str().unwrap().contains("did not come in time"), "{}", reply.body);
    assert!(reply.header("retry-after").is_some());

    let waiting = tokio::spawn(get_from(server.address));
    until(|| fair.waiting() == 1).await;
    drop(held);
    assert_eq!(waiting.await.unwrap().status, 200);
    until(|| fair.in_flight() == 0).await;
}

/// Whom no limit would admit takes no place, and is told so however busy it is.
#[tokio::test]
async fn who_is_on_a_deny_list_does_not_get_as_far_as_the_guards() {
    let limit = Limit::new(bucket(3)).deny([ME]).unwrap();
    let limiter = builder(&clock()).limit("api", limit).build().unwrap();
    let watched = Watched::new(1);
    let server = serve(AdmissionLayer::new(watched.pool.clone()).limits(limiter.enforcer("api").unwrap())).await;
    let held = watched.pool.try_acquire().unwrap();
    assert_eq!(get_from(server.address).await.status, 403);
    drop(held);
    assert_eq!(get_from(server.address).await.status, 403);
    assert!(watched.told().await.is_empty());
}

#[tokio::test]
async fn an_admission_further_in_that_turns_away_teaches_nothing_either() {
    let (outer, inner) = (Watched::new(5), Watched::new(1));
    let router = Router::new().fallback(|| async { "ok" }).layer(AdmissionLayer::new(inner.pool.clone()));
    let server = Server::router(router.layer(AdmissionLayer::new(outer.pool.clone()))).await;
    let held = inner.pool.try_acquire().unwrap();
    assert_eq!(get_from(server.address).await.status, 503);
    assert!(outer.told().await.is_empty());
    drop(held);
    assert_eq!(get_from(server.address).await.status, 200);
    assert_eq!(outer.told().await, [DONE]);
}

/// The key of a request is worked out once, however many look at it.
#[tokio::test]
async fn a_request_is_looked_at_once() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let limiter = limiter(bucket(5));
    let settings = RateLimit::new(limiter.enforcer("api").unwrap()).key(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Some("somebody".into())
    });
    // One that is skipped is, too, whatever would be said of it the second time.
    let (skips, skipped) = (Arc::new(AtomicU32::new(0)), Arc::clone(&asked));
    let every_other = settings.clone().skip(move |_| skips.fetch_add(1, Ordering::Relaxed) % 2 == 0);
    let server = serve(AdmissionLayer::new(PerKey::new(1)).limits(every_other)).await;
    for keys in [0, 1, 0, 1] {
        assert_eq!(get_from(server.address).await.status, 200);
        assert_eq!(skipped.swap(0, Ordering::Relaxed), keys);
    }
    let server = serve(AdmissionLayer::new(PerKey::new(1)).limits(settings.clone())).await;
    assert_eq!(get_from(server.address).await.status, 200);
    assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
    let server = Server::behind(settings.clone()).await;
    assert_eq!(get_from(server.address).await.status, 200);
    assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
    // One that waits for its turn, too.
    let fair = FairConcurrency::builder(1).build();
    let server = serve(AdmissionLayer::new(ConcurrencyGuard::from((fair.clone(), seconds(30)))).limits(settings)).await;
    let held = fair.try_acquire("other").unwrap();
    let waiting = tokio::spawn(get_from(server.address));
    until(|| fair.waiting() == 1).await;
    drop(held);
    assert_eq!(waiting.await.unwrap().status, 200);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// Leases of a limit, in front of a service.
#[tokio::test]
async fn places_that_processes_share_are_given_back_with_the_body() {
    let limiter = builder(&clock()).limit("work", Quota::concurrency(1, seconds(30)).unwrap()).build().unwrap();
    let shared = DistributedConcurrency::new(&limiter, "work");
    let server = serve(AdmissionLayer::new(shared.clone())).await;
    let held = shared.try_acquire(ME).await.unwrap();
    let reply = get_from(server.address).await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("30")));
    drop(held);
    shared.settled().await;
    for _ in 0..3 {
        assert_eq!(get_from(server.address).await.status, 200);
        until(|| limiter.check("work", ME).try_now().unwrap().remaining() == 1).await;
    }
}
