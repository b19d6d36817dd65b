//! The metrics of a layer: refusals of requests that are charged by their outcome.

use axum::Router;
use axum::http::StatusCode;
use tidegate::http::RateLimit;
use tidegate::tower::RateLimitLayer;

use crate::clients::get_with;
use crate::recorded::{counters, recorded};
use crate::support::{LOOPBACK, Server, builder, clock, limiter, waiting_limiter, window};

/// Five failed logins of a server with these limits, answered with these statuses.
async fn fail_logins(limits: RateLimit) -> Vec<u16> {
    let limits = limits.charge_when(|status, _| status == StatusCode::UNAUTHORIZED);
    let router = Router::new().fallback(|| async { StatusCode::UNAUTHORIZED }).layer(RateLimitLayer::new(limits));
    let server = Server::router(router).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(get_with(server.address, &[]).await.status);
    }
    statuses
}

/// Runs on one thread, whose recorder sees everything.
fn decisions(work: impl Future<Output = ()>) -> Vec<(String, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let recorded = recorded(|| runtime.block_on(work));
    let counted = counters(&recorded, "tidegate_decisions_total").into_iter();
    counted.map(|(labels, count)| (labels.to_owned(), count)).collect()
}

#[test]
fn refused_failed_logins_are_counted() {
    for limiter in [limiter(window(3)), waiting_limiter(window(3))] {
        let counted = decisions(async {
            let limits = RateLimit::new(limiter.enforcer("api").unwrap());
            assert_eq!(fail_logins(limits).await, [401, 401, 401, 429, 429]);
        });
        let expected = [("{limit=api,outcome=allowed}", 3), ("{limit=api,outcome=denied,reason=rate}", 2)];
        assert_eq!(counted, expected.map(|(labels, count)| (labels.to_owned(), count)));
    }
}

#[test]
fn requests_of_listed_clients_are_counted() {
    let counted = decisions(async {
        let limiter = builder(&clock()).limit("api", window(3)).deny("api", [LOOPBACK]).unwrap().build().unwrap();
        assert_eq!(fail_logins(RateLimit::new(limiter.enforcer("api").unwrap())).await, [403; 5]);
    });
    assert_eq!(counted, [("{limit=api,outcome=denied,reason=deny}".to_owned(), 5)]);
}
