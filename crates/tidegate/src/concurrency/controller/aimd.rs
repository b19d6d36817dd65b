//! Up by one, down by a share.

use std::time::Duration;

use super::limit::{Limit, bounds};
use super::rounds::Rounds;
use super::{Controller, Sample};

/// One more for each round that goes well, a share less for one that does not. The simplest of the three, and the one to take
/// where it is known how long work may take.
///
/// A round is twice as many pieces of work as the limit, and at least 100. It goes well when its mean time is not above
/// [`target`](Aimd::target). Without a target only wasted work counts, and the limit settles where work begins to be given up,
/// which may be far above what the server can do at once.
///
/// ```
/// use tidegate::concurrency::{Aimd, Concurrency};
/// use tidegate::millis;
///
/// let pool = Concurrency::adaptive(Aimd::default().target(millis(50)));
/// assert_eq!(pool.limit(), 20);
/// ```
#[derive(Debug, Clone)]
pub struct Aimd {
    limit: Limit,
    rounds: Rounds,
    back_off: f64,
    target: Option<Duration>,
}

impl Default for Aimd {
    fn default() -> Self {
        Aimd { limit: Limit::default(), rounds: Rounds::default(), back_off: 0.9, target: None }
    }
}

impl Aimd {
    bounds!();

    /// How long work may take, in the mean of a round. A longer one leaves [`back_off`](Aimd::back_off) of the
    /// limit. None unless said otherwise.
    #[must_use]
    pub fn target(mut self, target: Duration) -> Self {
        self.target = Some(target);
        self
    }
}

impl Controller for Aimd {
    fn limit(&self) -> u32 {
        self.limit.whole()
    }

    fn observe(&mut self, sample: &Sample) {
        if sample.dropped {
            return self.limit.back_off(self.back_off);
        }
        let Some(round) = self.rounds.add(sample, self.limit.whole(), None) else { return };
        if !self.limit.is_tried_by(round.in_flight) {
            return;
        }
        let late = self.target.is_some_and(|target| round.micros > target.as_micros() as f64);
        let limit = self.limit.value();
        self.limit.move_to(if late { limit * self.back_off } else { limit + 1.0 });
    }
}
