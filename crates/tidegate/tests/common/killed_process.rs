//! A process that is killed while it takes from limits.

use std::io::{BufRead, BufReader, Write};
use std::process::Command;

use tidegate::{Limiter, LimiterBuilder, MAX_PERIOD, Quota};
use tokio::task::JoinSet;

/// The number of its concurrent tasks, and the fewest admissions before the kill.
const TASKS: u64 = 16;
const MIN_ADMISSIONS: u64 = 150;

/// Enough for all rounds. Nothing is replenished meanwhile.
const CAPACITY: u64 = 50_000;

/// A limit of each algorithm.
const LIMITS: [&str; 4] = ["bucket", "fixed", "sliding", "log"];

/// A limit of each algorithm, without a store.
pub(crate) fn limits() -> LimiterBuilder {
    let quotas = [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window, Quota::sliding_log];
    Limiter::builder().limits(LIMITS.into_iter().zip(quotas.map(|quota| quota(CAPACITY, MAX_PERIOD).unwrap())))
}

/// Runs a command that [takes forever](take_forever) some times, and kills it with SIGKILL each time. Every admission
/// that it printed is spent, and at most one more for each of its tasks. `remaining` returns the rest of a limit.
pub(crate) fn assert_kills_refund_nothing(rounds: u64, child: impl Fn() -> Command, remaining: impl Fn(&str) -> u64) {
    let mut admitted = [0; LIMITS.len()];
    for round in 1..=rounds {
        let mut child = child().spawn().unwrap();
        let mut seen = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            // A line that the kill has cut off is not a printed admission.
            let Some(limit) = line.unwrap().strip_prefix("admitted ").and_then(|limit| limit.parse::<usize>().ok())
            else {
                continue;
            };
            admitted[limit] += 1;
            seen += 1;
            // Lines that were written before the kill are still read.
            if seen == MIN_ADMISSIONS + 37 * round {
                child.kill().unwrap();
            }
        }
        assert!(!child.wait().unwrap().success(), "it was killed");
        for (limit, admitted) in LIMITS.into_iter().zip(&admitted) {
            let left = remaining(limit);
            assert!(left <= CAPACITY - admitted, "{limit}: {left} left after {admitted} in round {round}");
            assert!(left >= CAPACITY - admitted - round * TASKS, "{limit}: {left} left after {admitted}");
        }
    }
}

/// Takes from the limits until the process is killed, and prints each admission.
pub(crate) async fn take_forever(limiter: &Limiter) {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS as usize {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            for limit in (0..LIMITS.len()).cycle().skip(task) {
                assert!(limiter.limit(LIMITS[limit], KEY).await.unwrap().allowed());
                // In one piece, and past the test harness.
                std::io::stdout().lock().write_all(format!("\nadmitted {limit}\n").as_bytes()).unwrap();
            }
        });
    }
    tasks.join_next().await.unwrap().unwrap();
}

/// The key of every call.
pub(crate) const KEY: &str = "everybody";
