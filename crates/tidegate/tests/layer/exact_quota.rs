//! Concurrent requests, which together get exactly the quota.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use tidegate::tower::RateLimitLayer;
use tidegate::{Limiter, Quota};
use tokio::task::JoinSet;

use crate::clients::{RawClient, http2, send};
use crate::support::{LOOPBACK, Server, bucket, left, limiter, waiting_limiter};

const CONNECTIONS: u64 = 200;
const REQUESTS: u64 = 10_000;
const QUOTA: u64 = 1_000;

fn quota() -> Quota {
    bucket(QUOTA)
}

/// A server that counts admitted requests.
async fn counting_server(limiter: &Limiter) -> (Server, Arc<AtomicU64>) {
    let served = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&served);
    let router = Router::new().fallback(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { "ok" }
    });
    (Server::router(router.layer(RateLimitLayer::new(limiter.enforcer("api").unwrap()))).await, served)
}

/// Returns how many requests of the tasks were admitted, and how many denied.
async fn tally(tasks: JoinSet<Vec<u16>>) -> (u64, u64) {
    let statuses = tasks.join_all().await.concat();
    let count = |wanted: u16| statuses.iter().filter(|&&status| status == wanted).count() as u64;
    (count(200), count(429))
}

async fn check_many_connections(limiter: Limiter) {
    let (server, served) = counting_server(&limiter).await;
    let address = server.address;
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        tasks.spawn(async move {
            let mut connection = RawClient::connect(address).await;
            let mut statuses = Vec::new();
            for _ in 0..REQUESTS / CONNECTIONS {
                statuses.push(connection.get("/", &[]).await.status);
            }
            statuses
        });
    }
    assert_eq!(tally(tasks).await, (QUOTA, REQUESTS - QUOTA));
    assert_eq!(served.load(Ordering::SeqCst), QUOTA);
    assert_eq!(left(&limiter, "api", LOOPBACK).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_connections_get_exactly_the_quota() {
    check_many_connections(limiter(quota())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_connections_get_exactly_the_quota_of_a_waiting_store() {
    check_many_connections(waiting_limiter(quota())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multiplexed_requests_get_exactly_the_quota() {
    let limiter = limiter(quota());
    let (server, served) = counting_server(&limiter).await;
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let client = http2();
        for _ in 0..CONNECTIONS / 4 {
            let (client, url) = (client.clone(), server.url("/"));
            tasks.spawn(async move {
                let mut statuses = Vec::new();
                for _ in 0..REQUESTS / CONNECTIONS {
                    statuses.push(send(client.get(&url)).await.status);
                }
                statuses
            });
        }
    }
    assert_eq!(tally(tasks).await, (QUOTA, REQUESTS - QUOTA));
    assert_eq!(served.load(Ordering::SeqCst), QUOTA);
    assert_eq!(left(&limiter, "api", LOOPBACK).await, 0);
}
