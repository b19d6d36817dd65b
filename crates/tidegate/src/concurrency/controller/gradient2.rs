//! The time without load against the time of late.

use super::limit::{Limit, bounds, within};
use super::no_load::NoLoad;
use super::rounds::Rounds;
use super::{Controller, Sample};

/// Follows the ratio of two times, that without load and that of the last round: the limit is cut in that proportion, and
/// gets some headroom on top, so that it always tries a little more. A good choice where the time of an answer is all that is
/// known.
///
/// It is Netflix's rule of that name, with other numbers and three changes, for the reasons in `docs/concurrency.md` in the
/// repository: the time without load is measured by lowering the limit for a round now and then, as long as the limit holds
/// work back; wasted work lowers the limit, and its time is not believed; and a round that is as quick as without load lets
/// the limit grow at once.
///
/// On a server that can do `n` at once without a queue, it settles near `tolerance * n + headroom * sqrt(n)`.
///
/// ```
/// use tidegate::concurrency::{Concurrency, Gradient2};
///
/// let pool = Concurrency::adaptive(Gradient2::default().initial(10).max(500));
/// assert_eq!(pool.limit(), 10);
/// ```
#[derive(Debug, Clone)]
pub struct Gradient2 {
    limit: Limit,
    rounds: Rounds,
    no_load: NoLoad,
    back_off: f64,
    smoothing: f64,
    tolerance: f64,
    headroom: f64,
}

impl Default for Gradient2 {
    fn default() -> Self {
        Gradient2 {
            limit: Limit::default(),
            rounds: Rounds::default(),
            no_load: NoLoad::default(),
            back_off: 0.9,
            smoothing: 0.2,
            tolerance: 1.05,
            headroom: 0.2,
        }
    }
}

impl Gradient2 {
    bounds!();

    /// How much of the way to its new value the limit goes in a round, from 0.01 to 1: 0.2 unless said otherwise. Less is
    /// steadier and slower.
    #[must_use]
    pub fn smoothing(mut self, share: f64) -> Self {
        self.smoothing = within(share, 0.01, 1.0);
        self
    }

    /// How many times longer than without load work may take before the limit is cut, from 1 to 10: 1.05 unless said
    /// otherwise. With 1.5, Netflix's number, the limit settles half as high again as it needs to be.
    #[must_use]
    pub fn tolerance(mut self, factor: f64) -> Self {
        self.tolerance = within(factor, 1.0, 10.0);
        self
    }

    /// How much more than it has seen to be good the limit tries, as a multiple of its square root, from 0.01 to 10: 0.2
    /// unless said otherwise.
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

impl Controller for Gradient2 {
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
        let headroom = self.headroom * limit.sqrt();
        if round.micros <= no_load {
            // Nobody waited. At least one more, or a limit that an outage has brought down would stay there for long.
            return self.limit.move_to(limit + headroom.max(1.0));
        }
        let gradient = (self.tolerance * no_load / round.micros).clamp(0.5, 1.0);
        let next = limit * gradient + headroom;
        self.limit.move_to(limit + (next - limit) * self.smoothing);
    }
}
