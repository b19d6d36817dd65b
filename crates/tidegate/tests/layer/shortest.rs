//! Most requests take the shortest way through the layer. What does not, ends up at the same place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::enforce::Enforcer;
use tidegate::http::{LimitHeaders, RateLimit};
use tidegate::{All, Capabilities, Decision, Limit, Limiter, MemoryStore, Request, Store, StoreError};

use crate::clients;
use crate::support::{ME, Server, clock, left, limiter, memory, window};

/// The statuses of so many requests.
async fn statuses(limits: impl Into<RateLimit>, requests: usize) -> Vec<u16> {
    let server = Server::behind(limits).await;
    let mut statuses = Vec::new();
    for _ in 0..requests {
        statuses.push(clients::get(server.address).await.status);
    }
    statuses
}

/// The same limits, with headers and without.
fn both_ways(enforcer: &Enforcer) -> [RateLimit; 2] {
    let told = RateLimit::new(enforcer.clone());
    [told.clone(), told.headers(LimitHeaders::new([]))]
}

#[tokio::test]
async fn a_limit_that_is_replaced_is_met_as_it_is_now() {
    let limiter = limiter(window(1));
    let enforcer = Enforcer::new(&limiter, "api");
    let [told, silent] = both_ways(&enforcer);
    assert_eq!(statuses(told.clone(), 2).await, [200, 429]);
    limiter.set_quota("api", window(4)).unwrap();
    assert_eq!(statuses(told.clone(), 1).await, [200]);
    assert_eq!(statuses(silent.clone(), 1).await, [200]);
    limiter.replace("api", Limit::new(window(4)).shadow(true)).unwrap();
    assert_eq!(statuses(told, 2).await, [200, 200]);
    assert_eq!(statuses(silent, 2).await, [200, 200]);
}

#[tokio::test]
async fn an_enforcers_own_quota_counts_in_place_of_the_limits() {
    let limiter = limiter(window(1));
    for rate_limit in both_ways(&Enforcer::new(&limiter, "api").quota(window(3))) {
        limiter.reset("api", ME).await.unwrap();
        assert_eq!(statuses(rate_limit, 4).await, [200, 200, 200, 429]);
    }
}

#[tokio::test]
async fn a_limiter_that_is_closed_admits_nobody() {
    let limiter = limiter(window(5));
    let [told, silent] = both_ways(&Enforcer::new(&limiter, "api"));
    limiter.close().await;
    assert_eq!(statuses(told, 1).await, [503]);
    assert_eq!(statuses(silent, 1).await, [503]);
}

#[tokio::test]
async fn what_would_have_been_denied_is_counted_in_shadow_mode() {
    let limiter = limiter(window(2));
    for rate_limit in both_ways(&Enforcer::new(&limiter, "api").shadow(true)) {
        assert_eq!(statuses(rate_limit, 3).await, [200, 200, 200]);
        assert_eq!(left(&limiter, "api", ME).await, 0);
    }
}

/// A store that has to be waited for, and how often it was asked for an answer at once.
struct Waiting {
    memory: MemoryStore,
    asked: Arc<AtomicUsize>,
}

impl Store for Waiting {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn apply_now(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.memory.apply(request).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        self.memory.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.memory.apply_each(requests).await
    }

    async fn close(&self) {}
}

#[tokio::test]
async fn a_store_that_has_to_be_waited_for_is_not_asked_again_and_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let store = Waiting { memory: memory(&clock()), asked: Arc::clone(&asked) };
    let limiter = Limiter::builder().limit("api", window(1)).store(store).build().unwrap();
    assert_eq!(statuses(Enforcer::new(&limiter, "api"), 2).await, [200, 429]);
    // For each of the two once by the layer, and once by the call that then waits.
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}
