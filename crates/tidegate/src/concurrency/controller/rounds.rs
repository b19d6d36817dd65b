//! Samples, put together until there are enough of them to be believed.

use tidegate_core::Timestamp;

use super::Sample;

/// One piece of work may be slow for reasons of its own. The mean of this many is worth comparing.
const ENOUGH: u32 = 100;
/// Of that many, when it is quite another than was thought.
const FEW: u32 = 10;

/// Puts samples together to rounds.
#[derive(Debug, Clone, Default)]
pub(super) struct Rounds {
    opened: Timestamp,
    count: u32,
    micros: u64,
    in_flight: u32,
}

/// What was seen under one limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    /// How long work took, in the mean, in microseconds; more than 0.
    pub(super) micros: f64,
    /// How many were in flight, at most.
    pub(super) in_flight: u32,
}

impl Rounds {
    /// Adds a sample under a limit. A round when it is complete: twice as many samples as the limit, and enough. With fewer,
    /// those that end first would count for more than those that take long. Where a mean of more microseconds settles it, few are
    /// enough.
    ///
    /// Work that began before the round opened is left out: it ran under another limit. Without that, a controller goes on
    /// correcting what it has corrected already.
    pub(super) fn add(&mut self, sample: &Sample, limit: u32, settles: Option<f64>) -> Option<Round> {
        if sample.ended < self.opened {
            // The clock went back. Without this, nothing would count until it has caught up.
            *self = Rounds { opened: sample.ended, ..Rounds::default() };
            return None;
        }
        if sample.started < self.opened {
            return None;
        }
        self.count += 1;
        self.micros = self.micros.saturating_add(u64::try_from(sample.took().as_micros()).unwrap_or(u64::MAX));
        self.in_flight = self.in_flight.max(sample.in_flight);
        let is_settled = settles.is_some_and(|settles| self.micros as f64 > settles * f64::from(self.count));
        let enough = if is_settled { FEW } else { ENOUGH };
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
    fn a_round_is_made_of_work_that_began_in_it() {
        let mut rounds = Rounds::default();
        let mut add = |started, ended| {
            let (started, ended) = (Timestamp::from_micros(started), Timestamp::from_micros(ended));
            rounds.add(&Sample { started, ended, in_flight: 60, dropped: false }, 60, None)
        };
        let first = (0..120).filter_map(|micros| add(micros, 1_000 + micros)).last();
        assert!(first.is_some_and(|round| round.micros == 1_000.0), "{first:?}");
        // What was under way when the round ended is not part of the next one.
        for micros in 0..500 {
            assert!(add(1_118, 2_000 + micros).is_none());
        }
        let second = (0..120).filter_map(|micros| add(2_000 + micros, 2_500 + micros)).last();
        assert!(second.is_some_and(|round| round.micros == 500.0), "{second:?}");
    }
}
