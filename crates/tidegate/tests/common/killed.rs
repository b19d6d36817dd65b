//! A process that is killed in the middle of it.

use std::io::{BufRead, BufReader, Write};
use std::process::Command;

use tidegate::{Limiter, LimiterBuilder, MAX_PERIOD, Quota};
use tokio::task::JoinSet;

/// How many ask at once in it, and after how many admissions it is killed at the earliest.
const TASKS: u64 = 16;
const BEFORE: u64 = 150;

/// Enough for all rounds, and nothing comes back.
const PLENTY: u64 = 50_000;

/// A limit of each algorithm.
const LIMITS: [&str; 4] = ["bucket", "fixed", "sliding", "log"];

/// The limits, without a store yet.
pub(crate) fn limits() -> LimiterBuilder {
    let quotas = [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window, Quota::sliding_log];
    Limiter::builder().limits(LIMITS.into_iter().zip(quotas.map(|quota| quota(PLENTY, MAX_PERIOD).unwrap())))
}

/// Runs a command that [takes for ever](take_for_ever) some times, kills it with SIGKILL each time, and asks `remaining`
/// what is left of a limit: what it was told of is spent, and nothing but what it was about to be told.
pub(crate) fn gives_nothing_back(rounds: u64, child: impl Fn() -> Command, remaining: impl Fn(&str) -> u64) {
    let mut admitted = [0; LIMITS.len()];
    for round in 1..=rounds {
        let mut child = child().spawn().unwrap();
        let mut seen = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            // A line that the kill has cut off is not an admission that anybody was told of.
            let Some(limit) = line.unwrap().strip_prefix("admitted ").and_then(|limit| limit.parse::<usize>().ok())
            else {
                continue;
            };
            admitted[limit] += 1;
            seen += 1;
            // What it has written before it dies is still read.
            if seen == BEFORE + 37 * round {
                child.kill().unwrap();
            }
        }
        assert!(!child.wait().unwrap().success(), "it was killed");
        for (limit, admitted) in LIMITS.into_iter().zip(&admitted) {
            let left = remaining(limit);
            assert!(left <= PLENTY - admitted, "{limit}: {left} left after {admitted} in round {round}");
            assert!(left >= PLENTY - admitted - round * TASKS, "{limit}: {left} left after {admitted}");
        }
    }
}

/// Asks until it is killed, and says each admission when it has been told of it.
pub(crate) async fn take_for_ever(limiter: &Limiter) {
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

/// Whom it asks for.
pub(crate) const KEY: &str = "everybody";
