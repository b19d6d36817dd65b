//! The load of the store benchmarks: keys, clients, and the request rate of a client.

use std::future::Future;
use std::time::Instant;

use crate::workload::{Random, next_seed};

/// The number of keys. Each is requested equally often.
pub(crate) const KEYS: u64 = 10_000;

/// A client that sends one request.
pub(crate) trait LoadClient: Clone + Send + 'static {
    fn send(&self, key: String) -> impl Future<Output = ()> + Send;
}

/// Measures the requests a second with that many in flight.
pub(crate) async fn measure_rate(client: &impl LoadClient, concurrency: u64, requests: u64) -> f64 {
    let each = requests.div_ceil(concurrency);
    let started = Instant::now();
    let tasks: Vec<_> = (0..concurrency)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut random = Random(next_seed());
                for _ in 0..each {
                    client.send(random_key(&mut random)).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panics here");
    }
    (each * concurrency) as f64 / started.elapsed().as_secs_f64()
}

/// Returns a key with as many digits as `redis-benchmark` writes.
pub(crate) fn key_text(number: u64) -> String {
    format!("{number:012}")
}

/// Returns a random key.
pub(crate) fn random_key(random: &mut Random) -> String {
    key_text(random.next() % KEYS)
}
