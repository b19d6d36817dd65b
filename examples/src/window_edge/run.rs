//! Runs of one load under every algorithm.

use std::error::Error;

use tidegate::{Limiter, ManualClock, MemoryStore, Quota, Timestamp, seconds};

/// The units of each quota in a second.
pub(super) const RATE: u64 = 10;
/// The period, in milliseconds.
pub(super) const PERIOD: i64 = 1_000;
/// The edge of a window, in milliseconds since the epoch: windows begin at whole seconds.
const EDGE: u64 = 1_000_000;

/// The answers of one algorithm to the load.
pub(super) struct Run {
    pub(super) name: &'static str,
    pub(super) note: &'static str,
    /// The time of each request, in milliseconds from the edge, and whether it was admitted.
    pub(super) answers: Vec<(i64, bool)>,
}

impl Run {
    /// Returns the number of admitted requests.
    pub(super) fn admitted(&self) -> usize {
        self.answers.iter().filter(|(_, allowed)| *allowed).count()
    }

    /// Returns the number of requests admitted in the period that ends at each time, for the times at which it changes.
    pub(super) fn trailing(&self) -> Vec<(i64, u64)> {
        let admitted = || self.answers.iter().filter(|(_, allowed)| *allowed).map(|(at, _)| *at);
        let mut times: Vec<_> = admitted().flat_map(|at| [at, at + PERIOD]).collect();
        times.sort_unstable();
        times.dedup();
        let inside = |now: i64| admitted().filter(|at| (now - PERIOD + 1..=now).contains(at)).count() as u64;
        times.into_iter().map(|now| (now, inside(now))).collect()
    }
}

/// Returns the load: 12 requests at once just before the edge, 12 just after it, and then one every 10 ms.
fn load() -> impl Iterator<Item = i64> {
    [-5; 12].into_iter().chain([15; 12]).chain((30..=1_300).step_by(10))
}

/// Runs every algorithm under that load.
pub(super) fn runs() -> Result<Vec<Run>, Box<dyn Error>> {
    let period = seconds(1);
    let quotas = [
        ("fixed_window", "begins anew at the edge", Quota::fixed_window(RATE, period)?),
        ("sliding_window", "1 bucket: the last second fades", Quota::sliding_window(RATE, period)?),
        (
            "sliding_window",
            "10 buckets: only its oldest tenth fades",
            Quota::sliding_window(RATE, period)?.buckets(10)?,
        ),
        ("sliding_log", "never more than the rate", Quota::sliding_log(RATE, period)?),
        ("token_bucket", "the capacity, then the rate", Quota::token_bucket(RATE, period)?),
    ];
    quotas.into_iter().map(|(name, note, quota)| run(name, note, quota)).collect()
}

fn run(name: &'static str, note: &'static str, quota: Quota) -> Result<Run, Box<dyn Error>> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().max_keys(1).clock(clock.clone()).build();
    let limiter = Limiter::builder().limit("edge", quota).store(store).build()?;
    let mut answers = Vec::new();
    for at in load() {
        clock.set(Timestamp::from_millis(EDGE.saturating_add_signed(at)));
        let decision = limiter.limit("edge", "client").try_now()?;
        answers.push((at, decision.allowed()));
    }
    Ok(Run { name, note, answers })
}
