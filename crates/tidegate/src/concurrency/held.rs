//! How long permits are held.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::{Timestamp, millis, minutes, seconds};

/// How long permits are held of late, for those who are to try again. A race between two loses one of their times, which
/// a hint can bear.
#[derive(Debug, Default)]
pub(super) struct Held(AtomicU64);

impl Held {
    /// A permit was held that long.
    pub(super) fn learn(&self, from: Timestamp, to: Timestamp) {
        let took = u64::try_from(to.since(from).as_micros()).unwrap_or(u64::MAX).max(1);
        let usual = self.0.load(Ordering::Relaxed);
        let usual = if usual == 0 { took } else { usual - usual / 8 + took / 8 };
        self.0.store(usual.max(1), Ordering::Relaxed);
    }

    /// What to tell those who are to try again: a second while nothing is known.
    pub(super) fn usual(&self) -> Duration {
        self.hint().unwrap_or(seconds(1))
    }

    /// About how long, from a millisecond to a minute; none while nothing is known.
    pub(super) fn hint(&self) -> Option<Duration> {
        self.known().map(|known| known.clamp(millis(1), minutes(1)))
    }

    /// About how long; none while nothing is known.
    pub(super) fn known(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            micros => Some(Duration::from_micros(micros)),
        }
    }
}
