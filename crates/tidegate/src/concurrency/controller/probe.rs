//! What the controllers share that compare with the time without load.

use super::Sample;
use super::limit::{Limit, within};
use super::no_load::NoLoad;
use super::rounds::Rounds;

/// A limit, and what is known about how long work takes without load.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    pub(super) limit: Limit,
    rounds: Rounds,
    no_load: NoLoad,
    pub(super) back_off: f64,
    smoothing: f64,
    pub(super) tolerance: f64,
    headroom: f64,
}

/// A round that has tried the limit.
pub(super) struct Tried {
    /// The limit then.
    pub(super) limit: f64,
    /// How many more than needed are wanted.
    pub(super) headroom: f64,
    /// How long work took, and how long it takes without load, in microseconds.
    pub(super) micros: f64,
    pub(super) no_load: f64,
}

impl Probe {
    pub(super) fn new(smoothing: f64, tolerance: f64, headroom: f64) -> Self {
        let (limit, rounds, no_load) = (Limit::default(), Rounds::default(), NoLoad::default());
        Probe { limit, rounds, no_load, back_off: 0.9, smoothing, tolerance, headroom }
    }

    /// What is handed out: lower while it looks how long work takes without load.
    pub(super) fn limit(&self) -> u32 {
        self.no_load.lower(self.limit.whole())
    }

    /// Learns from a sample. A round when it is complete and has tried the limit.
    pub(super) fn observe(&mut self, sample: &Sample) -> Option<Tried> {
        if sample.dropped {
            self.limit.back_off(self.back_off);
            return None;
        }
        let round = self.rounds.add(sample, self.limit(), self.no_load.refuted_beyond())?;
        let no_load = self.no_load.learn(&round, &self.limit)?;
        let limit = self.limit.value();
        let headroom = self.headroom * limit.sqrt();
        self.limit.is_tried_by(round.in_flight).then_some(Tried { limit, headroom, micros: round.micros, no_load })
    }

    /// Goes towards another limit, as far as it goes in a round.
    pub(super) fn go_towards(&mut self, limit: f64) {
        let now = self.limit.value();
        self.limit.move_to(now + (limit - now) * self.smoothing);
    }

    pub(super) fn set_smoothing(&mut self, share: f64) {
        self.smoothing = within(share, 0.01, 1.0);
    }

    pub(super) fn set_tolerance(&mut self, factor: f64) {
        self.tolerance = within(factor, 1.0, 10.0);
    }

    pub(super) fn set_headroom(&mut self, factor: f64) {
        self.headroom = within(factor, 0.01, 10.0);
    }

    pub(super) fn set_window(&mut self, rounds: u32) {
        self.no_load.set_window(rounds);
    }
}

/// The setters that both have; each says what it does with them where it says how it works.
macro_rules! probing {
    () => {
        /// How much of the way to its next value the limit goes in a round, from 0.01 to 1. Less is steadier and slower.
        #[must_use]
        pub fn smoothing(mut self, share: f64) -> Self {
            self.probe.set_smoothing(share);
            self
        }

        /// How many times longer than without load work may take before anybody is thought to wait, from 1 to 10.
        #[must_use]
        pub fn tolerance(mut self, factor: f64) -> Self {
            self.probe.set_tolerance(factor);
            self
        }

        /// How many more than needed it tries, as a multiple of the square root of the limit, from 0.01 to 10. More grows
        /// quicker and waits more.
        #[must_use]
        pub fn headroom(mut self, factor: f64) -> Self {
            self.probe.set_headroom(factor);
            self
        }

        /// Over how many rounds the time without load is averaged while the limit holds nothing back, at least 10: 600
        /// unless said otherwise.
        #[must_use]
        pub fn long_window(mut self, rounds: u32) -> Self {
            self.probe.set_window(rounds);
            self
        }
    };
}
pub(super) use probing;
