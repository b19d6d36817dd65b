//! Stores that hang or are dead, within `Resilience`.

use std::time::Duration;

use serde_json::Value;
use tidegate::http::RateLimit;
use tidegate::{Limit, Limiter, ManualClock, OnStoreError};
use tidegate_testkit::Faults;
use tokio::task::JoinHandle;

use crate::clients::{self, Reply};
use crate::support::{Server, TIMEOUT, dead_store, faulty_limiter, unavailable_error, until, window};

/// A limit of six a minute over a store that breaks on command; two replicas share it in an outage.
struct Outage {
    server: Server,
    faults: Faults,
    clock: ManualClock,
}

impl Outage {
    async fn new(policy: OnStoreError) -> Self {
        let (limiter, faults, clock) = faulty_limiter(policy);
        Outage { server: Server::behind(limiter.enforcer("api").unwrap()).await, faults, clock }
    }

    async fn get(&self) -> Reply {
        clients::get(self.server.address).await
    }

    /// Sends a request while the store hangs. Checks that no answer comes before the timeout, and returns the answer.
    async fn get_while_hanging(&self) -> Reply {
        let address = self.server.address;
        let reply: JoinHandle<Reply> = tokio::spawn(async move { clients::get(address).await });
        until(|| self.faults.held_calls() == 1 && self.clock.sleepers() == 1).await;
        self.clock.advance(TIMEOUT - Duration::from_micros(1));
        // Long enough for a premature answer to arrive.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!((self.faults.held_calls(), reply.is_finished()), (1, false), "given up too early");
        self.clock.advance(Duration::from_micros(1));
        let reply = reply.await.unwrap();
        assert_eq!(self.faults.held_calls(), 0, "given up and still there");
        reply
    }

    fn kill(&self) {
        self.faults.fail(unavailable_error());
    }
}

fn assert_unavailable(reply: &Reply) {
    assert_eq!((reply.status, reply.limit_headers()), (503, vec![]));
    let Value::Object(problem) = reply.problem() else { panic!("{}", reply.body) };
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
    assert_eq!((&problem["status"], &problem["retryable"]), (&503.into(), &true.into()));
}

#[tokio::test]
async fn open_admits_without_quota_headers() {
    let outage = Outage::new(OnStoreError::Open).await;
    outage.faults.hang();
    for _ in 0..8 {
        let reply = outage.get_while_hanging().await;
        assert_eq!((reply.status, &*reply.body, reply.limit_headers()), (200, "ok", vec![]));
    }
    outage.kill();
    for _ in 0..8 {
        let reply = outage.get().await;
        assert_eq!((reply.status, reply.limit_headers()), (200, vec![]));
    }
    outage.faults.pass();
    assert_eq!(outage.get().await.header("ratelimit"), Some(r#""api";r=5;t=60"#));
}

#[tokio::test]
async fn closed_answers_503_with_a_problem() {
    let outage = Outage::new(OnStoreError::Closed).await;
    outage.faults.hang();
    assert_unavailable(&outage.get_while_hanging().await);
    outage.kill();
    assert_unavailable(&outage.get().await);
    outage.faults.pass();
    assert_eq!(outage.get().await.header("ratelimit"), Some(r#""api";r=5;t=60"#));
}

#[tokio::test]
async fn local_limits_to_the_share_of_this_replica() {
    let outage = Outage::new(OnStoreError::Local).await;
    outage.faults.hang();
    let first = outage.get_while_hanging().await;
    assert_eq!((first.status, first.header("ratelimit-policy")), (200, Some(r#""api";q=3;w=60"#)));
    assert_eq!(first.header("ratelimit"), Some(r#""api";r=2;t=60"#));
    outage.kill();
    for status in [200, 200, 429, 429] {
        assert_eq!(outage.get().await.status, status);
    }
    outage.faults.pass();
    assert_eq!(outage.get().await.header("ratelimit"), Some(r#""api";r=5;t=60"#));
}

/// A cost above the replica's share, and within the quota, can be admitted when the store is back.
#[tokio::test]
async fn cost_above_the_local_share_is_retryable() {
    let (limiter, faults, _clock) = faulty_limiter(OnStoreError::Local);
    let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).cost(4)).await;
    faults.fail(unavailable_error());
    let reply = clients::get(server.address).await;
    let problem = reply.problem();
    assert_eq!((reply.status, reply.header("retry-after")), (429, None));
    assert_eq!((&problem["retryable"], &problem["retry_after_ms"]), (&true.into(), &Value::Null));
    assert!(problem["detail"].as_str().unwrap().contains("store is away"), "{problem}");
    faults.pass();
    assert_eq!(clients::get(server.address).await.status, 200);
}

#[tokio::test]
async fn open_denies_a_cost_above_the_capacity() {
    let (limiter, faults, _clock) = faulty_limiter(OnStoreError::Open);
    faults.fail(unavailable_error());
    for (cost, status) in [(6, 200), (7, 429)] {
        let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).cost(cost)).await;
        let reply = clients::get(server.address).await;
        assert_eq!(reply.status, status, "{cost}");
        if status == 429 {
            assert_eq!(reply.problem()["retryable"], false);
        }
    }
    let shadow = RateLimit::new(limiter.enforcer("api").unwrap().shadow(true)).cost(7);
    assert_eq!(clients::get(Server::behind(shadow).await.address).await.status, 200);
}

#[tokio::test]
async fn bare_store_that_fails_is_unavailable_under_every_policy() {
    for policy in OnStoreError::ALL {
        let limit = Limit::new(window(6)).on_store_error(policy);
        let limiter = Limiter::builder().limit("api", limit).bare_store(dead_store()).build().unwrap();
        let server = Server::behind(limiter.enforcer("api").unwrap()).await;
        assert_eq!(clients::get(server.address).await.status, 503, "{policy:?}");
    }
}

#[tokio::test]
async fn disconnected_client_cancels_its_store_call() {
    let outage = Outage::new(OnStoreError::Closed).await;
    outage.faults.hang();
    let address = outage.server.address;
    let client = tokio::spawn(async move { clients::get(address).await });
    until(|| outage.faults.held_calls() == 1).await;
    client.abort();
    until(|| outage.faults.held_calls() == 0 && outage.clock.sleepers() == 0).await;
    outage.faults.pass();
    assert_eq!(outage.get().await.header("ratelimit"), Some(r#""api";r=5;t=60"#));
}
