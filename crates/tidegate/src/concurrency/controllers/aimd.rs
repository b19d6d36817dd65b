//! `Aimd`: additive increase, multiplicative decrease.

use std::time::Duration;

use super::limit::{BoundedLimit, bound_settings};
use super::rounds::Rounds;
use super::{Controller, Sample};

/// A controller with additive increase and multiplicative decrease. The limit grows by one after a good round, and
/// shrinks by a ratio after a bad one. The simplest of the three, and the right one where a target latency is known.
///
/// A round is twice as many samples as the limit, and at least 100. It is good when its mean latency is at most the
/// [`target`](Aimd::target). Without a target, only wasted work counts. The limit then settles where clients begin to
/// give up, which may be far above the capacity of the server.
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
    limit: BoundedLimit,
    rounds: Rounds,
    back_off: f64,
    target: Option<Duration>,
}

impl Default for Aimd {
    fn default() -> Self {
        Aimd { limit: BoundedLimit::default(), rounds: Rounds::default(), back_off: 0.9, target: None }
    }
}

impl Aimd {
    bound_settings!();

    /// Sets the target for the mean latency of a round. A slower round reduces the limit to [`back_off`](Aimd::back_off) of
    /// it. Defaults to no target.
    #[must_use]
    pub fn target(mut self, target: Duration) -> Self {
        self.target = Some(target);
        self
    }
}

impl Controller for Aimd {
    fn limit(&self) -> u32 {
        self.limit.rounded()
    }

    fn observe(&mut self, sample: &Sample) {
        if sample.dropped {
            return self.limit.back_off(self.back_off);
        }
        let Some(round) = self.rounds.add(sample, self.limit.rounded(), None) else { return };
        if !self.limit.is_tested_by(round.in_flight) {
            return;
        }
        let late = self.target.is_some_and(|target| round.micros > target.as_micros() as f64);
        let limit = self.limit.value();
        self.limit.move_to(if late { limit * self.back_off } else { limit + 1.0 });
    }
}
