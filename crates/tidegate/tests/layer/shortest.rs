//! Most requests take the shortest way through the layer. What does not, ends up at the same place.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate::enforce::Enforcer;
use tidegate::http::{LimitHeaders, RateLimit};
use tidegate::{Limit, Limiter};

use crate::clients;
use crate::support::{Elsewhere, ME, Server, clock, left, limiter, memory, window};

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

#[tokio::test]
async fn a_store_that_has_to_be_waited_for_is_not_asked_again_and_again() {
    let store = Elsewhere::new(memory(&clock()));
    let asked = Arc::clone(&store.asked);
    let limiter = Limiter::builder().limit("api", window(1)).store(store).build().unwrap();
    assert_eq!(statuses(Enforcer::new(&limiter, "api"), 2).await, [200, 429]);
    // For each of the two once by the layer, and once by the call that then waits.
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}
