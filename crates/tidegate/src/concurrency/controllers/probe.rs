//! The baseline latency without load, measured by probes, which `Gradient2` and `Vegas` compare with.

use super::Sample;
use super::limit::{BoundedLimit, clamp};
use super::rounds::{Round, Rounds};

/// The limit of a controller that compares rounds with the latency without load.
#[derive(Debug, Clone)]
pub(super) struct ProbedLimit {
    pub(super) limit: BoundedLimit,
    rounds: Rounds,
    baseline: Baseline,
    pub(super) back_off: f64,
    smoothing: f64,
    pub(super) tolerance: f64,
    headroom: f64,
}

/// A complete round that has tried the limit.
pub(super) struct TestedRound {
    /// The limit of the round.
    pub(super) limit: f64,
    /// How many more than needed to allow.
    pub(super) headroom: f64,
    /// The latency of the round, and that without load, in microseconds.
    pub(super) micros: f64,
    pub(super) baseline: f64,
}

impl ProbedLimit {
    pub(super) fn new(smoothing: f64, tolerance: f64, headroom: f64) -> Self {
        let (limit, rounds, baseline) = (BoundedLimit::default(), Rounds::default(), Baseline::default());
        ProbedLimit { limit, rounds, baseline, back_off: 0.9, smoothing, tolerance, headroom }
    }

    /// Returns the limit that applies, which is lower during a probe.
    pub(super) fn limit(&self) -> u32 {
        self.baseline.effective_limit(self.limit.rounded())
    }

    /// Learns from a sample. Returns the round when it is complete and has tried the limit.
    pub(super) fn observe(&mut self, sample: &Sample) -> Option<TestedRound> {
        if sample.dropped {
            self.limit.back_off(self.back_off);
            return None;
        }
        let round = self.rounds.add(sample, self.limit(), self.baseline.refutation_threshold())?;
        let baseline = self.baseline.learn(&round, &self.limit)?;
        let limit = self.limit.value();
        let headroom = self.headroom * limit.sqrt();
        self.limit.is_tested_by(round.in_flight).then_some(TestedRound {
            limit,
            headroom,
            micros: round.micros,
            baseline,
        })
    }

    /// Moves the limit towards another one, as far as smoothing allows in a round.
    pub(super) fn move_towards(&mut self, limit: f64) {
        let now = self.limit.value();
        self.limit.move_to(now + (limit - now) * self.smoothing);
    }

    pub(super) fn set_smoothing(&mut self, share: f64) {
        self.smoothing = clamp(share, 0.01, 1.0);
    }

    pub(super) fn set_tolerance(&mut self, factor: f64) {
        self.tolerance = clamp(factor, 1.0, 10.0);
    }

    pub(super) fn set_headroom(&mut self, factor: f64) {
        self.headroom = clamp(factor, 0.01, 10.0);
    }

    pub(super) fn set_window(&mut self, rounds: u32) {
        self.baseline.set_window(rounds);
    }
}

/// The settings that both controllers have; each documents its use of them.
macro_rules! probe_settings {
    () => {
        /// Sets the part of the way to its next value that the limit moves in a round, from 0.01 to 1. Less is steadier and slower.
        #[must_use]
        pub fn smoothing(mut self, share: f64) -> Self {
            self.probe.set_smoothing(share);
            self
        }

        /// Sets how many times the latency without load counts as no queue yet, from 1 to 10.
        #[must_use]
        pub fn tolerance(mut self, factor: f64) -> Self {
            self.probe.set_tolerance(factor);
            self
        }

        /// Sets how many more than needed to allow, as a multiple of the square root of the limit, from 0.01 to 10. More headroom
        /// grows faster and queues more.
        #[must_use]
        pub fn headroom(mut self, factor: f64) -> Self {
            self.probe.set_headroom(factor);
            self
        }

        /// Sets over how many rounds the latency without load is averaged while the limit rejects no work. Defaults to 600; the
        /// minimum is 10.
        #[must_use]
        pub fn long_window(mut self, rounds: u32) -> Self {
            self.probe.set_window(rounds);
            self
        }
    };
}
pub(super) use probe_settings;

/// Rounds between two probes, while the limit rejects work.
const PROBE_EVERY: u32 = 40;
/// The number of first rounds to average, except much slower ones. The fastest rounds alone would give too low a
/// latency.
const WARM_UP_ROUNDS: u32 = 10;
/// Ratios of latencies that noise does not reach.
const MUCH_SLOWER: f64 = 1.25;
const MUCH_FASTER: f64 = 0.875;
/// A ratio that not even a few samples reach by chance.
const REFUTATION_RATIO: f64 = 4.0;

/// The latency without load.
///
/// Under a lasting overload every latency includes a queue. A controller that learns from those takes the queue for granted, and
/// lets it grow. So every now and then there is a probe: for a round the limit is so low that the queue drains. That costs about
/// a hundredth of the server's capacity, and only while work is rejected anyway.
#[derive(Debug, Clone)]
pub(super) struct Baseline {
    /// In microseconds; 0 while nothing is known.
    micros: f64,
    /// The number of rounds in the average, up to `window`.
    rounds: u32,
    window: u32,
    /// Rounds since the last probe, and the limit then.
    since: u32,
    limit_then: f64,
    /// The limit during a probe.
    probe_limit: Option<u32>,
}

impl Default for Baseline {
    fn default() -> Self {
        // A probe follows the first round under load.
        Baseline { micros: 0.0, rounds: 0, window: 600, since: PROBE_EVERY, limit_then: 0.0, probe_limit: None }
    }
}

impl Baseline {
    pub(super) fn set_window(&mut self, rounds: u32) {
        self.window = rounds.max(WARM_UP_ROUNDS);
    }

    /// Returns the limit that applies, which is lower during a probe.
    pub(super) fn effective_limit(&self, limit: u32) -> u32 {
        self.probe_limit.map_or(limit, |probe_limit| probe_limit.min(limit))
    }

    /// Returns the mean, in microseconds, above which a probe refutes the known latency. The probe's limit is too low by the same
    /// factor, so it should end soon. A lower mean needs more samples: fast work ends first.
    pub(super) fn refutation_threshold(&self) -> Option<f64> {
        self.probe_limit.map(|_| self.micros * REFUTATION_RATIO)
    }

    /// Learns from a round. Returns the latency without load, or `None` when the round was a probe, which does not try the limit.
    pub(super) fn learn(&mut self, round: &Round, limit: &BoundedLimit) -> Option<f64> {
        if self.probe_limit.take().is_some() {
            self.learn_from_probe(round.micros, limit.value());
            return None;
        }
        let in_flight = round.in_flight;
        let first = self.rounds == 0 || (self.rounds < WARM_UP_ROUNDS && round.micros < self.micros * MUCH_SLOWER);
        if first || round.micros < self.micros || !limit.is_tested_by(in_flight) {
            self.rounds = (self.rounds + 1).min(self.window);
            self.micros += (round.micros - self.micros) / f64::from(self.rounds);
        }
        if self.micros > round.micros * 2.0 {
            // A slow phase is over. The average alone would remember it for too long.
            self.micros *= 0.95;
        }
        self.since = self.since.saturating_add(1);
        let moved = limit.value() > self.limit_then * 2.0 || limit.value() < self.limit_then / 2.0;
        let held_back = u64::from(in_flight) * 4 >= u64::from(limit.rounded()) * 3;
        if held_back && (moved || self.since >= PROBE_EVERY) {
            // Half of those that were not queued, as far as known: half of a limit that is much too high would still be too high.
            let at_work = f64::from(in_flight.min(limit.rounded())) * (self.micros / round.micros).min(1.0);
            self.probe_limit = Some(((at_work / 2.0) as u32).max(limit.min()));
        }
        Some(self.micros)
    }

    /// A probe that is close to the known latency refines it. Any other replaces it, and the next probe follows soon: if the known
    /// latency was too high, this probe's limit was not low enough.
    fn learn_from_probe(&mut self, micros: f64, limit: f64) {
        let changed = micros < self.micros * MUCH_FASTER || micros > self.micros * MUCH_SLOWER;
        self.micros = if changed { micros } else { (self.micros * 2.0 + micros) / 3.0 };
        self.since = if changed { PROBE_EVERY } else { 0 };
        self.limit_then = limit;
    }
}
