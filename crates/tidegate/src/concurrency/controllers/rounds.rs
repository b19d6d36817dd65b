//! Rounds: enough samples under one limit for a mean latency that can be trusted.

use tidegate_core::Timestamp;

use super::Sample;

/// The least samples of a round: single samples may be slow for reasons of their own.
const ROUND_SAMPLES: u32 = 100;
/// The least samples of a round whose mean is far from the expected one.
const MIN_ROUND_SAMPLES: u32 = 10;

/// Collects samples into rounds.
#[derive(Debug, Clone, Default)]
pub(super) struct Rounds {
    opened: Timestamp,
    count: u32,
    micros: u64,
    in_flight: u32,
}

/// A round of samples under one limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    /// The mean latency in microseconds, above 0.
    pub(super) micros: f64,
    /// The most that were in flight.
    pub(super) in_flight: u32,
}

impl Rounds {
    /// Adds a sample under a limit. Returns the round when it is complete: twice as many samples as the limit, and at least
    /// [`ROUND_SAMPLES`]. With fewer, fast work, which ends first, would count more than slow work. Where a mean above `settles`
    /// microseconds is evidence enough, [`MIN_ROUND_SAMPLES`] samples complete it.
    ///
    /// Work that began before the round is left out: it ran under another limit. Otherwise a controller would repeat its last
    /// correction.
    pub(super) fn add(&mut self, sample: &Sample, limit: u32, settles: Option<f64>) -> Option<Round> {
        if sample.ended < self.opened {
            // The clock was set back. Without this, no sample would count until it has caught up.
            *self = Rounds { opened: sample.ended, ..Rounds::default() };
            return None;
        }
        if sample.started < self.opened {
            return None;
        }
        self.count += 1;
        self.micros = self.micros.saturating_add(u64::try_from(sample.latency().as_micros()).unwrap_or(u64::MAX));
        self.in_flight = self.in_flight.max(sample.in_flight);
        let is_settled = settles.is_some_and(|settles| self.micros as f64 > settles * f64::from(self.count));
        let enough = if is_settled { MIN_ROUND_SAMPLES } else { ROUND_SAMPLES };
        if self.count < limit.saturating_mul(2).max(enough) {
            return None;
        }
        let micros = self.micros.max(1) as f64 / f64::from(self.count);
        let round = Round { micros, in_flight: self.in_flight };
        *self = Rounds { opened: sample.ended, ..Rounds::default() };
        Some(round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_contains_only_work_that_began_in_it() {
        let mut rounds = Rounds::default();
        let mut add = |started, ended| {
            let (started, ended) = (Timestamp::from_micros(started), Timestamp::from_micros(ended));
            rounds.add(&Sample { started, ended, in_flight: 60, dropped: false }, 60, None)
        };
        let first = (0..120).filter_map(|micros| add(micros, 1_000 + micros)).last();
        assert!(first.is_some_and(|round| round.micros == 1_000.0), "{first:?}");
        // Work in flight at the end of the round is not part of the next one.
        for micros in 0..500 {
            assert!(add(1_118, 2_000 + micros).is_none());
        }
        let second = (0..120).filter_map(|micros| add(2_000 + micros, 2_500 + micros)).last();
        assert!(second.is_some_and(|round| round.micros == 500.0), "{second:?}");
    }
}
