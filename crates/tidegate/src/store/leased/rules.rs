//! Which quotas are leased, how much of them, and for how long.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::{Algorithm, Decision, Op, Quota, Request, Timestamp};

use super::hand::IN_TIME;
use crate::clock::JITTER;

/// By so much of a window, its length divided by this, a lease ends before the window does. A clock that is slewed as far
/// as systems do it, 500 parts in a million, and a server's that is slewed the other way, are a fourth of it.
const DRIFT: u64 = 256;

/// The shortest window of which something is leased. A batch is made to last some tens of milliseconds, and what is left of
/// it at the end of the window is lost: of a shorter one that would be most of it.
const SHORTEST: u64 = 500_000;

/// How a quota is leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) quota: Quota,
    /// The most that one process has in hand or on its way, at least 2.
    pub(super) most: u64,
    /// For a quota that counts in windows, the length of the span in which what was taken has to be spent.
    window: Option<u64>,
}

impl Rules {
    /// The rules for a quota that so many processes share. None when it is not leased: what is not counted in units, a log,
    /// which remembers when each was taken, and what is too small or too short to be worth it.
    pub(super) fn new(quota: &Quota, replicas: NonZeroU32) -> Option<Self> {
        let parts = quota.parts();
        let period = parts.period.as_micros() as u64;
        let window = match parts.algorithm {
            Algorithm::TokenBucket => None,
            Algorithm::FixedWindow => Some(period),
            // Within a bucket nothing depends on when it was taken.
            Algorithm::SlidingWindow => Some(period / u64::from(parts.buckets)),
            _ => return None,
        };
        let most = u64::from(parts.capacity / replicas);
        let is_worth_it = most >= 2 && window.is_none_or(|window| window >= SHORTEST);
        is_worth_it.then_some(Rules { quota: *quota, most, window })
    }

    /// Whether what is in hand loses its worth with the end of a window.
    pub(super) fn is_windowed(&self) -> bool {
        self.window.is_some()
    }

    /// Whether what loses its worth at `until` may still be given back: it arrives in time.
    pub(super) fn is_in_time(&self, until: Timestamp, now: Timestamp) -> bool {
        !self.is_windowed() || until.since(now) >= IN_TIME
    }

    /// When, by this process's clock, that is at the earliest which was just granted to a request that was sent at `sent`.
    ///
    /// The store said how long the window still lasts, from some time after `sent`. Only spans are compared, so it does not
    /// matter by how much the clocks differ.
    pub(super) fn until(&self, granted: &Decision, sent: Timestamp) -> Timestamp {
        let Some(window) = self.window else { return Timestamp::from_micros(u64::MAX) };
        // What was just taken is as good as new at the end of a window, this one or a later one.
        let left = (granted.reset_after().as_micros() as u64).saturating_sub(1) % window + 1;
        sent.saturating_add(Duration::from_micros(left - left.div_ceil(DRIFT)).saturating_sub(JITTER))
    }

    /// How much earlier than the whole capacity that much is there, if nobody takes anything; nothing where it depends on
    /// more than a decision tells.
    pub(super) fn earlier(&self, units: u64) -> Duration {
        if self.is_windowed() {
            return Duration::ZERO;
        }
        let missing = u128::from(u64::from(self.quota.parts().capacity).saturating_sub(units));
        let micros = missing * u128::from(self.quota.unit()) / u128::from(self.quota.refill());
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

/// How much a request takes, or looks for, when it is one that can be answered in process.
pub(super) fn units(request: &Request<'_>) -> Option<u64> {
    match request.op {
        Op::Limit(cost) | Op::Check(cost) => Some(cost.get()),
        _ => None,
    }
}
