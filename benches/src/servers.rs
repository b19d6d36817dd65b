//! What the benches of servers share: which server, which keys, and how many asked about them a second.

use std::future::Future;
use std::time::Instant;

use crate::workload::{Random, seed};

/// How many keys are asked about, each as often as the others.
pub(crate) const KEYS: u64 = 10_000;

/// Something that asks a server once.
pub(crate) trait Ask: Clone + Send + 'static {
    fn ask(&self, key: String) -> impl Future<Output = ()> + Send;
}

/// How many a second, with so many asking at a time.
pub(crate) async fn rate(asked: &impl Ask, concurrency: u64, requests: u64) -> f64 {
    let each = requests.div_ceil(concurrency);
    let began = Instant::now();
    let tasks: Vec<_> = (0..concurrency)
        .map(|_| {
            let asked = asked.clone();
            tokio::spawn(async move {
                let mut random = Random(seed());
                for _ in 0..each {
                    asked.ask(any(&mut random)).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panics here");
    }
    (each * concurrency) as f64 / began.elapsed().as_secs_f64()
}

/// A key, of as many digits as `redis-benchmark` writes.
pub(crate) fn text(number: u64) -> String {
    format!("{number:012}")
}

/// Any of the keys.
pub(crate) fn any(random: &mut Random) -> String {
    text(random.next() % KEYS)
}
