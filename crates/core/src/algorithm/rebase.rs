//! Rebasing: converts a state from one quota to another, and keeps used units used.

use super::{BucketCounts, ManyBuckets, RequestLog, SlidingWindow, State, StepTime};
use crate::{Algorithm, Quota, Timestamp};

impl State {
    /// Converts this state, written under the quota `from`, to a state of the quota `to` at the time `now`.
    ///
    /// Units used at the time of the write count as used under the new quota at that time. The available units become
    /// the new capacity minus the used ones, which may be debt, and the new quota's rule continues from there. A key
    /// that is as good as new under its own quota is new under every quota, because a store may have forgotten it.
    ///
    /// Leases keep their expiry; leases beyond the new capacity are debt. Leases are not units of a rate: a key that
    /// moves between `concurrency` and another algorithm is reset.
    #[must_use]
    pub fn rebase(self, from: &Quota, to: &Quota, now: Timestamp) -> State {
        if from == to {
            return self;
        }
        if self.is_new(from, now) {
            return State::New;
        }
        match (self, to.algorithm()) {
            (State::TokenBucket { deficit, last }, Algorithm::TokenBucket) => {
                // Rescaled and not rounded to whole units: keys that change tier with every call must still refill. The
                // product is at most half of 2^128: a deficit is below 2^33 units of 2^45, and a unit is below 2^45.
                let deficit = (deficit * u128::from(to.unit())).div_ceil(from.unit().into());
                State::TokenBucket { deficit, last }
            }
            (State::SlidingWindow { counts, last }, Algorithm::SlidingWindow) if has_same_buckets(from, to) => {
                State::SlidingWindow { counts, last }
            }
            (State::SlidingLog(log), Algorithm::SlidingLog) => State::SlidingLog(log),
            (State::Leases(leases), Algorithm::Concurrency) => State::Leases(leases),
            (state, _) => {
                let Some(last) = state.last() else {
                    return State::New;
                };
                to.state_with_used(state.used(from), last)
            }
        }
    }

    /// Returns the whole units used under `quota` when the state was written, rounded up.
    fn used(&self, quota: &Quota) -> u64 {
        match self {
            State::New | State::Leases(_) => 0,
            State::TokenBucket { deficit, .. } => deficit.div_ceil(quota.unit().into()) as u64,
            State::FixedWindow { deficit, .. } => *deficit,
            State::SlidingWindow { counts, last } => {
                let time = StepTime::new(*last, *last);
                SlidingWindow::<ManyBuckets>::new(quota, Some(counts), time).used()
            }
            State::SlidingLog(log) => log.units(),
        }
    }
}

impl Quota {
    /// Returns the state of a key that took `used` units at `last`.
    fn state_with_used(&self, used: u64, last: Timestamp) -> State {
        if used == 0 {
            return State::New;
        }
        match self.algorithm() {
            Algorithm::TokenBucket => State::TokenBucket { deficit: u128::from(used) * u128::from(self.unit()), last },
            Algorithm::FixedWindow => State::FixedWindow { deficit: used, last },
            Algorithm::SlidingWindow => {
                let mut counts = vec![0; self.parts().buckets as usize + 1];
                counts[self.parts().buckets as usize] = used;
                State::SlidingWindow { counts: BucketCounts::from_slice(&counts), last }
            }
            Algorithm::SlidingLog => State::SlidingLog(RequestLog::from_runs([(last, used)], last)),
            Algorithm::Concurrency => State::New,
        }
    }
}

fn has_same_buckets(a: &Quota, b: &Quota) -> bool {
    let shape = |quota: &Quota| (quota.bucket_micros(), quota.parts().buckets, quota.parts().start);
    shape(a) == shape(b)
}
