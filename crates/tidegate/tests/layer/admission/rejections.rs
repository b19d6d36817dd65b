//! Rejections, and outcomes that record no sample.

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

use super::{DONE, WatchedPool};
use crate::clients::{RawClient, get as get_from, http1, http2, send};
use crate::support::{LOOPBACK, Server, bucket, builder, clock, left, limiter, until, waiting_limiter};

async fn serve(layer: AdmissionLayer) -> Server {
    Server::router(Router::new().fallback(|| async { "ok" }).layer(layer)).await
}

#[tokio::test]
async fn full_pool_is_503_with_a_retry_hint() {
    let watched = WatchedPool::new(1);
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
    assert_eq!(watched.samples().await, [DONE], "a rejected request records no sample");
}

#[tokio::test]
async fn pool_without_keys_admits_unknown_clients() {
    let from_unknown = |layer: AdmissionLayer| async {
        let app = Router::new().fallback(|| async { "ok" }).layer(layer);
        app.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap().status()
    };
    let watched = WatchedPool::new(1);
    assert_eq!(from_unknown(AdmissionLayer::new(watched.pool.clone())).await, 200);
    // Permits per key and limits need a client.
    assert_eq!(from_unknown(AdmissionLayer::new(PerKey::new(1))).await, 500);
    let limits = limiter(bucket(9));
    assert_eq!(
        from_unknown(AdmissionLayer::new(watched.pool.clone()).limits(limits.enforcer("api").unwrap())).await,
        500
    );
}

#[tokio::test]
async fn rejected_head_request_has_no_body() {
    let watched = WatchedPool::new(1);
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
async fn full_key_is_429_with_a_retry_hint() {
    let keys = PerKey::new(1);
    let settings = RateLimit::unlimited().headers(LimitHeaders::new([HeaderStyle::Ietf, HeaderStyle::Legacy]));
    let server = serve(AdmissionLayer::new(keys.clone()).limits(settings)).await;
    let held = keys.try_acquire(LOOPBACK).unwrap();
    let reply = get_from(server.address).await;
    assert_eq!(reply.status, 429);
    assert_eq!(
        reply.limit_headers(),
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
    assert_eq!((reply.status, reply.limit_headers().len()), (200, 0), "no limits, no headers");
    assert_eq!(keys.keys(), 0);
}

#[tokio::test]
async fn rate_limit_denial_releases_the_permit_without_a_sample() {
    for limiter in [limiter(bucket(1)), waiting_limiter(bucket(1))] {
        let watched = WatchedPool::new(5);
        let layer = AdmissionLayer::new(watched.pool.clone()).limits(limiter.enforcer("api").unwrap());
        let server = serve(layer).await;
        assert_eq!(get_from(server.address).await.status, 200);
        let denied = get_from(server.address).await;
        assert_eq!(denied.status, 429);
        assert_eq!(denied.header("ratelimit"), Some("\"api\";r=0;t=60"));
        assert_eq!(watched.samples().await, [DONE]);
    }
}

#[tokio::test]
async fn overloaded_request_consumes_no_quota() {
    let (watched, limiter) = (WatchedPool::new(1), limiter(bucket(3)));
    let server = serve(AdmissionLayer::new(watched.pool.clone()).limits(limiter.enforcer("api").unwrap())).await;
    let held = watched.pool.try_acquire().unwrap();
    assert_eq!(get_from(server.address).await.status, 503);
    assert_eq!(left(&limiter, "api", LOOPBACK).await, 3);
    drop(held);
    assert_eq!(get_from(server.address).await.status, 200);
    assert_eq!(left(&limiter, "api", LOOPBACK).await, 2);
}

#[tokio::test]
async fn reserve_admits_critical_requests_and_skipped_ones_bypass_it() {
    let watched = WatchedPool::new(2);
    let pool = tidegate::concurrency::Concurrency::fixed(2).reserve(50);
    let layer = AdmissionLayer::new(ConcurrencyGuards::new().and(pool.clone()).and(watched.pool.clone()))
        .limits(RateLimit::unlimited().skip(|head| head.uri().path() == "/health"))
        .priority(|head| match head.uri().path() {
            "/login" => Priority::Critical,
            _ => Priority::Default,
        });
    let server = serve(layer).await;
    let held = pool.try_acquire().unwrap();
    let mut connection = RawClient::connect(server.address).await;
    assert_eq!(connection.get("/", &[]).await.status, 503);
    assert_eq!(connection.get("/login", &[]).await.status, 200);
    let last = pool.try_acquire_as(Priority::Critical).unwrap();
    assert_eq!(connection.get("/login", &[]).await.status, 503);
    assert_eq!(connection.get("/health", &[]).await.status, 200, "skipped");
    drop((held, last));
    assert_eq!(watched.samples().await, [DONE], "the second guard does not see a rejection by the first");
    assert_eq!(pool.in_flight(), 0);
}

#[tokio::test]
async fn priority_can_depend_on_the_client() {
    let pool = tidegate::concurrency::Concurrency::fixed(2).reserve(50);
    let layer = AdmissionLayer::new(pool.clone()).priority(|head| match head.client() {
        Some(client) if client.address().is_loopback() => Priority::Critical,
        _ => Priority::Default,
    });
    let server = serve(layer).await;
    let _held = pool.try_acquire().unwrap();
    assert_eq!(RawClient::connect(server.address).await.get("/", &[]).await.status, 200);
}

/// A denial by the attribute is no work, even when the handler turns it into an error of its own.
#[cfg(feature = "macros")]
#[tokio::test]
async fn attribute_denial_records_no_sample() {
    struct OwnError;
    impl From<tidegate::attribute::LimitError> for OwnError {
        fn from(_: tidegate::attribute::LimitError) -> Self {
            OwnError
        }
    }
    impl axum::response::IntoResponse for OwnError {
        fn into_response(self) -> axum::response::Response {
            axum::http::StatusCode::IM_A_TEAPOT.into_response()
        }
    }
    #[tidegate::limit("own", key = "all")]
    async fn limited() -> Result<&'static str, tidegate::attribute::LimitError> {
        Ok("ok")
    }
    #[tidegate::limit("own", key = "own")]
    async fn with_own_error() -> Result<&'static str, OwnError> {
        Ok("ok")
    }
    for (handler, refused) in [(get(limited), 429), (get(with_own_error), 418)] {
        let limiter = builder(&clock()).limit("api", bucket(100)).limit("own", bucket(1)).build().unwrap();
        let watched = WatchedPool::new(5);
        let layer = AdmissionLayer::new(watched.pool.clone()).limits(limiter.enforcer("api").unwrap());
        let server = Server::router(Router::new().route("/", handler).layer(layer)).await;
        assert_eq!(get_from(server.address).await.status, 200);
        assert_eq!(get_from(server.address).await.status, refused);
        assert_eq!(watched.samples().await, [DONE]);
    }
}

/// Such a handler records no sample, but its response is in flight.
#[cfg(feature = "macros")]
#[tokio::test]
async fn handler_that_continues_after_a_denial_is_in_flight_until_its_end() {
    #[tidegate::limit("own", key = "all")]
    async fn extra() -> Result<(), tidegate::attribute::LimitError> {
        Ok(())
    }
    for hangs_up in [false, true] {
        let limiter = builder(&clock()).limit("api", bucket(100)).limit("own", bucket(1)).build().unwrap();
        assert!(limiter.limit("own", "all").try_now().unwrap().allowed());
        let (writer, body) = super::channel_body();
        let body = Arc::new(std::sync::Mutex::new(Some(body)));
        let handler = move || async move {
            assert!(extra().await.is_err());
            let body = body.lock().unwrap().take();
            body.expect("asked once")
        };
        let watched = WatchedPool::new(1);
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
        assert!(watched.samples().await.is_empty(), "{hangs_up}");
    }
}

#[tokio::test]
async fn cloned_services_share_their_permits() {
    let watched = WatchedPool::new(1);
    let layer = AdmissionLayer::new(watched.pool.clone());
    // Each route gets a clone of the layer, and each connection clones of the services.
    let router = Router::new()
        .route("/a", get(|| async { "a" }).layer(layer.clone()))
        .route("/b", get(|| async { "b" }).layer(layer));
    let server = Server::router(router).await;
    let held = watched.pool.try_acquire().unwrap();
    for path in ["/a", "/b"] {
        assert_eq!(RawClient::connect(server.address).await.get(path, &[]).await.status, 503);
    }
    drop(held);
}

/// There is one slot, and requests wait for it as long as the layer allows.
#[tokio::test]
async fn tenants_wait_for_their_turn_for_a_bounded_time() {
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

/// A listed client takes no slot, and gets its 403 even under overload.
#[tokio::test]
async fn listed_client_does_not_reach_the_guards() {
    let limit = Limit::new(bucket(3)).deny([LOOPBACK]).unwrap();
    let limiter = builder(&clock()).limit("api", limit).build().unwrap();
    let watched = WatchedPool::new(1);
    let server = serve(AdmissionLayer::new(watched.pool.clone()).limits(limiter.enforcer("api").unwrap())).await;
    let held = watched.pool.try_acquire().unwrap();
    assert_eq!(get_from(server.address).await.status, 403);
    drop(held);
    assert_eq!(get_from(server.address).await.status, 403);
    assert!(watched.samples().await.is_empty());
}

#[tokio::test]
async fn rejection_by_an_inner_layer_records_no_sample() {
    let (outer, inner) = (WatchedPool::new(5), WatchedPool::new(1));
    let router = Router::new().fallback(|| async { "ok" }).layer(AdmissionLayer::new(inner.pool.clone()));
    let server = Server::router(router.layer(AdmissionLayer::new(outer.pool.clone()))).await;
    let held = inner.pool.try_acquire().unwrap();
    assert_eq!(get_from(server.address).await.status, 503);
    assert!(outer.samples().await.is_empty());
    drop(held);
    assert_eq!(get_from(server.address).await.status, 200);
    assert_eq!(outer.samples().await, [DONE]);
}

/// The key function runs once, however many guards and limits use the key.
#[tokio::test]
async fn key_function_runs_once_per_request() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let limiter = limiter(bucket(5));
    let settings = RateLimit::new(limiter.enforcer("api").unwrap()).key(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Some("client".into())
    });
    // `skip` runs once, too.
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
    // Also for a request that waits for its turn.
    let fair = FairConcurrency::builder(1).build();
    let server = serve(AdmissionLayer::new(ConcurrencyGuard::from((fair.clone(), seconds(30)))).limits(settings)).await;
    let held = fair.try_acquire("other").unwrap();
    let waiting = tokio::spawn(get_from(server.address));
    until(|| fair.waiting() == 1).await;
    drop(held);
    assert_eq!(waiting.await.unwrap().status, 200);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn distributed_permit_is_released_with_the_body() {
    let limiter = builder(&clock()).limit("work", Quota::concurrency(1, seconds(30)).unwrap()).build().unwrap();
    let shared = DistributedConcurrency::new(&limiter, "work");
    let server = serve(AdmissionLayer::new(shared.clone())).await;
    let held = shared.try_acquire(LOOPBACK).await.unwrap();
    let reply = get_from(server.address).await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("30")));
    drop(held);
    shared.flush().await;
    for _ in 0..3 {
        assert_eq!(get_from(server.address).await.status, 200);
        until(|| limiter.check("work", LOOPBACK).try_now().unwrap().remaining() == 1).await;
    }
}
