//! Exactly the quota is admitted, however many ask at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use tidegate::tower::RateLimitLayer;
use tidegate::{Limiter, Quota};
use tokio::task::JoinSet;

use crate::clients::{Raw, http2, send};
use crate::support::{ME, Server, bucket, left, limiter, waiting_limiter};

const CONNECTIONS: u64 = 200;
const REQUESTS: u64 = 10_000;
const QUOTA: u64 = 1_000;

fn quota() -> Quota {
    bucket(QUOTA)
}

/// A server that counts what comes through the limits.
async fn counting(limiter: &Limiter) -> (Server, Arc<AtomicU64>) {
    let served = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&served);
    let router = Router::new().fallback(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { "ok" }
    });
    (Server::router(router.layer(RateLimitLayer::new(limiter.enforcer("api").unwrap()))).await, served)
}

/// How many of the requests that the tasks have sent were admitted, and how many denied.
async fn tally(tasks: JoinSet<Vec<u16>>) -> (u64, u64) {
    let statuses = tasks.join_all().await.concat();
    let count = |wanted: u16| statuses.iter().filter(|&&status| status == wanted).count() as u64;
    (count(200), count(429))
}

async fn over_many_connections(limiter: Limiter) {
    let (server, served) = counting(&limiter).await;
    let address = server.address;
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        tasks.spawn(async move {
            let mut connection = Raw::connect(address).await;
            let mut statuses = Vec::new();
            for _ in 0..REQUESTS / CONNECTIONS {
                statuses.push(connection.get("/", &[]).await.status);
            }
            statuses
        });
    }
    assert_eq!(tally(tasks).await, (QUOTA, REQUESTS - QUOTA));
    assert_eq!(served.load(Ordering::SeqCst), QUOTA);
    assert_eq!(left(&limiter, "api", ME).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_requests_over_two_hundred_connections() {
    over_many_connections(limiter(quota())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_on_a_store_that_has_to_be_waited_for() {
    over_many_connections(waiting_limiter(quota())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_requests_multiplexed_over_http_2() {
    let limiter = limiter(quota());
    let (server, served) = counting(&limiter).await;
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
    assert_eq!(left(&limiter, "api", ME).await, 0);
}
