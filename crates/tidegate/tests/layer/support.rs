//! Limiters with a manual clock, and servers on loopback.

use std::convert::Infallible;
use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::time::Duration;

use axum::response::Response;
use axum::{Router, ServiceExt, extract};
use tidegate::enforce::Enforcer;
use tidegate::http::RateLimit;
use tidegate::resilience::Resilience;
use tidegate::tower::RateLimitLayer;
use tidegate::{
    Key, Limit, Limiter, LimiterBuilder, ManualClock, MemoryStore, OnStoreError, Quota, StoreError, StoreErrorKind,
    Timestamp, millis,
};
use tidegate_testkit::{Faults, FaultyStore};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, yield_now};
use tower::Service;

use crate::waiting_store::WaitingStore;

/// The address of every test client.
pub(crate) const LOOPBACK: &str = "127.0.0.1";

/// A manual clock at the beginning of a minute, far from the epoch.
pub(crate) fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_800_000_000_000))
}

pub(crate) fn memory(clock: &ManualClock) -> MemoryStore {
    MemoryStore::builder().max_keys(4_096).clock(clock.clone()).build()
}

/// A builder whose store follows `clock`.
pub(crate) fn builder(clock: &ManualClock) -> LimiterBuilder {
    Limiter::builder().store(memory(clock))
}

/// A limiter with the one limit `api`, on a manual clock.
pub(crate) fn limiter(quota: Quota) -> Limiter {
    builder(&clock()).limit("api", quota).build().unwrap()
}

/// A limiter with the one limit `api`, on a store that does not answer at once.
pub(crate) fn waiting_limiter(quota: Quota) -> Limiter {
    Limiter::builder().limit("api", quota).store(WaitingStore::new(memory(&clock()))).build().unwrap()
}

/// A limiter with the one limit `api` of six a minute, over a store that breaks on command; two replicas share it in an
/// outage. The clock is manual.
pub(crate) fn faulty_limiter(policy: OnStoreError) -> (Limiter, Faults, ManualClock) {
    let clock = clock();
    let store = FaultyStore::new(memory(&clock));
    let faults = store.faults();
    // The breaker stays closed, so that every request reaches the store.
    let resilience = Resilience::new(clock.clone()).timeout(TIMEOUT).breaker(1_000, millis(1)).expected_replicas(2);
    let limit = Limit::new(window(6)).on_store_error(policy);
    let limiter = Limiter::builder().limit("api", limit).store(resilience.build(store)).build().unwrap();
    (limiter, faults, clock)
}

/// The timeout of that store.
pub(crate) const TIMEOUT: Duration = millis(20);

/// An enforcer of a limit that the limiter had when the enforcer was built, and has no longer.
pub(crate) fn removed_limit(name: &str) -> Enforcer {
    let limiter = builder(&clock()).limit(name, bucket(1)).build().unwrap();
    let enforcer = limiter.enforcer(name).unwrap();
    limiter.replace_all(Limiter::builder().limit("api", bucket(1))).unwrap();
    enforcer
}

/// A store whose every call fails.
pub(crate) fn dead_store() -> FaultyStore<MemoryStore> {
    let store = FaultyStore::new(memory(&clock()));
    store.faults().fail(unavailable_error());
    store
}

pub(crate) fn unavailable_error() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "unplugged")
}

/// `rate` in a minute, refilled continuously.
pub(crate) fn bucket(rate: u64) -> Quota {
    Quota::token_bucket(rate, Duration::from_secs(60)).unwrap()
}

/// `rate` in every minute.
pub(crate) fn window(rate: u64) -> Quota {
    Quota::fixed_window(rate, Duration::from_secs(60)).unwrap()
}

/// Returns the remaining quota of a key.
pub(crate) async fn left<'a>(limiter: &'a Limiter, limit: &'a str, key: impl Into<Key<'a>>) -> u64 {
    limiter.check(limit, key).into_future().await.unwrap().remaining()
}

/// A server on loopback, until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    task: AbortHandle,
}

impl Server {
    /// Runs `serve` with a listener.
    pub(crate) async fn start<F>(serve: impl FnOnce(TcpListener) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Server { address, task: tokio::spawn(serve(listener)).abort_handle() }
    }

    /// Serves a router, with peer addresses.
    pub(crate) async fn router(router: Router) -> Self {
        // As its own `into_make_service_with_connect_info` does. Otherwise its routes are built again for every
        // request.
        Self::service(router.with_state(())).await
    }

    /// Serves a service of axum's requests, with peer addresses.
    pub(crate) async fn service<S>(service: S) -> Self
    where
        S: Service<extract::Request, Response = Response, Error = Infallible, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let service = ServiceExt::<extract::Request>::into_make_service_with_connect_info::<SocketAddr>(service);
        Self::start(|listener| async move { axum::serve(listener, service).await.unwrap() }).await
    }

    /// Answers `ok` to admitted requests.
    pub(crate) async fn behind(limits: impl Into<RateLimit>) -> Self {
        Self::router(Router::new().fallback(|| async { "ok" }).layer(RateLimitLayer::new(limits))).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let holds = async {
        while !condition() {
            yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), holds).await.expect("the condition never holds");
}
