//! Several processes that share limits.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::{Error, Limiter, LimiterBuilder, MAX_PERIOD, Quota, StoreErrorKind};
use tokio::task::JoinSet;

/// Processes that take one key of a limit of each algorithm. Nothing is replenished meanwhile.
pub(crate) struct Fleet {
    pub(crate) processes: u64,
    /// The tasks of each process.
    pub(crate) tasks: u64,
    /// The capacity of a bucket, a fixed window, a sliding window and a log, and the number of calls for each.
    pub(crate) limits: [(u64, u64); 4],
}

const NAMES: [&str; 4] = ["bucket", "fixed", "sliding", "log"];

impl Fleet {
    /// The limits, without a store.
    pub(crate) fn limits(&self) -> LimiterBuilder {
        let [bucket, fixed, sliding, log] = self.limits.map(|(admits, _)| admits);
        let quotas = [
            Quota::token_bucket(1, MAX_PERIOD).and_then(|quota| quota.capacity(bucket)),
            Quota::fixed_window(fixed, MAX_PERIOD),
            Quota::sliding_window(sliding, MAX_PERIOD),
            Quota::sliding_log(log, MAX_PERIOD),
        ];
        Limiter::builder().limits(NAMES.into_iter().zip(quotas.map(Result::unwrap)))
    }

    /// Runs the processes, each of which [takes its share](Fleet::take_share), and checks that exactly the capacity is admitted.
    pub(crate) fn run(&self, child: impl Fn() -> Command) {
        let children: Vec<_> = (0..self.processes).map(|_| child().spawn().unwrap()).collect();
        let mut admitted = [0; NAMES.len()];
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            let text = String::from_utf8(output.stdout).unwrap();
            let line = text.lines().find_map(|line| line.split_once("admitted ")).expect("what it was admitted").1;
            for (sum, part) in admitted.iter_mut().zip(line.split(' ')) {
                *sum += part.parse::<u64>().unwrap();
            }
        }
        assert_eq!(admitted, self.limits.map(|(admits, _)| admits));
    }

    /// Makes the calls that are one process's share, and prints how many were admitted.
    #[allow(clippy::print_stdout)] // the parent reads it
    pub(crate) async fn take_share(&self, limiter: &Limiter) {
        let mut admitted = Vec::new();
        for (limit, (_, asked)) in NAMES.into_iter().zip(self.limits) {
            let count = Arc::new(AtomicU64::new(0));
            let mut tasks = JoinSet::new();
            for _ in 0..self.tasks {
                let (limiter, count, share) =
                    (limiter.clone(), Arc::clone(&count), asked / self.processes / self.tasks);
                tasks.spawn(async move {
                    for _ in 0..share {
                        count.fetch_add(u64::from(take_one(&limiter, limit).await), Ordering::Relaxed);
                    }
                });
            }
            tasks.join_all().await;
            admitted.push(count.load(Ordering::Relaxed).to_string());
        }
        println!("admitted {}", admitted.join(" "));
    }
}

/// Takes one unit, and retries until the store decides. On a busy machine the queue for the key can outlast the store's
/// timeout. A call that timed out must not have taken anything, or the sum is too small.
async fn take_one(limiter: &Limiter, limit: &str) -> bool {
    loop {
        match limiter.limit(limit, "everybody").await {
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::Timeout => {}
            decision => return decision.unwrap().allowed(),
        }
    }
}
