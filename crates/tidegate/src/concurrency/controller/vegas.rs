//! How many of those in flight wait in a queue.

use super::limit::{Limit, bounds, within};
use super::no_load::NoLoad;
use super::rounds::Rounds;
use super::{Controller, Sample};

/// Estimates how many of those in flight wait in the server's queue, and keeps that between two small numbers. It moves in
/// small steps: quicker than [`Gradient2`](super::Gradient2) to find a high limit, and slower to leave one that is too high.
///
/// The estimate is `limit * (1 - tolerance * time without load / time of late)`, as in TCP Vegas. The queue is kept from
/// once to twice [`headroom`](Vegas::headroom) times the square root of the limit; when there is next to none, the limit
/// grows by the upper of the two at once, and when more than half of it wait, it falls by as much as if they were wasted.
/// The time without load is measured by lowering the limit for a round now and then, as long as the limit holds work back.
///
/// ```
/// use tidegate::concurrency::{Concurrency, Vegas};
///
/// let pool = Concurrency::adaptive(Vegas::default().min(4));
/// assert_eq!(pool.limit(), 20);
/// ```
#[derive(Debug, Clone)]
pub struct Vegas {
    limit: Limit,
    rounds: Rounds,
    no_load: NoLoad,
    back_off: f64,
    smoothing: f64,
    tolerance: f64,
    headroom: f64,
}

impl Default for Vegas {
    fn default() -> Self {
        Vegas {
            limit: Limit::default(),
            rounds: Rounds::default(),
            no_load: NoLoad::default(),
            back_off: 0.9,
            smoothing: 1.0,
            tolerance: 1.03,
            headroom: 0.15,
        }
    }
}

impl Vegas {
    bounds!();

    /// How much of a step the limit takes, from 0.01 to 1: all of it unless said otherwise. Less is steadier and slower.
    #[must_use]
    pub fn smoothing(mut self, share: f64) -> Self {
        self.smoothing = within(share, 0.01, 1.0);
        self
    }

    /// How many times longer than without load work may take before anybody is thought to wait, from 1 to 10: 1.03 unless said
    /// otherwise. For a high limit even a small error in the time without load would look like a long queue.
    #[must_use]
    pub fn tolerance(mut self, factor: f64) -> Self {
        self.tolerance = within(factor, 1.0, 10.0);
        self
    }

    /// How long a queue is wanted, as a multiple of the square root of the limit, from 0.01 to 10: 0.15 unless said
    /// otherwise.
    #[must_use]
    pub fn headroom(mut self, factor: f64) -> Self {
        self.headroom = within(factor, 0.01, 10.0);
        self
    }

    /// Over how many rounds the time without load is averaged while the limit holds nothing back, at least 10: 600 unless
    /// said otherwise.
    #[must_use]
    pub fn long_window(mut self, rounds: u32) -> Self {
        self.no_load.set_window(rounds);
        self
    }
}

impl Controller for Vegas {
    fn limit(&self) -> u32 {
        self.no_load.lower(self.limit.whole())
    }

    fn observe(&mut self, sample: &Sample) {
        if sample.dropped {
            return self.limit.back_off(self.back_off);
        }
        let Some(round) = self.rounds.add(sample, self.limit()) else { return };
        let Some(no_load) = self.no_load.learn(&round, &self.limit) else { return };
        if !self.limit.is_tried_by(round.in_flight) {
            return;
        }
        let limit = self.limit.value();
        let least = self.headroom * limit.sqrt();
        let step = f64::from(self.limit.whole().ilog10().max(1));
        let queue = limit * (1.0 - self.tolerance * no_load / round.micros);
        let change = if queue <= least / 3.0 {
            step.max(2.0 * least)
        } else if queue < least {
            step
        } else if queue > limit / 2.0 {
            limit * (self.back_off - 1.0)
        } else if queue > 2.0 * least {
            -step
        } else {
            0.0
        };
        self.limit.move_to(limit + change * self.smoothing);
    }
}
