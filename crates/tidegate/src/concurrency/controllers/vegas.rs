//! `Vegas`: keeps the estimated queue of the server short.

use super::limit::bound_settings;
use super::probe::{ProbedLimit, TestedRound, probe_settings};
use super::{Controller, Sample};

/// A controller that estimates the length of the server's queue, and keeps it between two small numbers. It moves in small
/// steps: faster than [`Gradient2`](super::Gradient2) to find a high limit, and slower to leave one that is too high.
///
/// The estimate is `limit * (1 - tolerance * latency without load / recent latency)`, as in TCP Vegas. The queue is kept from
/// once to twice [`headroom`](Vegas::headroom) times the square root of the limit. When there is next to no queue, the limit
/// grows by the upper of the two at once. When more than half of the limit is queued, it falls by as much as if that work was
/// wasted. A probe measures the latency without load by lowering the limit for a round now and then, while the limit rejects
/// work.
///
/// ```
/// use tidegate::concurrency::{Concurrency, Vegas};
///
/// let pool = Concurrency::adaptive(Vegas::default().min(4));
/// assert_eq!(pool.limit(), 20);
/// ```
#[derive(Debug, Clone)]
pub struct Vegas {
    probe: ProbedLimit,
}

/// A smoothing of 1, a tolerance of 1.03 and a headroom of 0.15. Without a tolerance, even a small error in the latency without
/// load would look like a long queue at a high limit.
impl Default for Vegas {
    fn default() -> Self {
        Vegas { probe: ProbedLimit::new(1.0, 1.03, 0.15) }
    }
}

impl Vegas {
    bound_settings!(probe);
    probe_settings!();
}

impl Controller for Vegas {
    fn limit(&self) -> u32 {
        self.probe.limit()
    }

    fn observe(&mut self, sample: &Sample) {
        let Some(TestedRound { limit, headroom: least, micros, baseline }) = self.probe.observe(sample) else { return };
        let step = f64::from(self.probe.limit.rounded().ilog10().max(1));
        let queue = limit * (1.0 - self.probe.tolerance * baseline / micros);
        let change = if queue <= least / 3.0 {
            step.max(2.0 * least)
        } else if queue < least {
            step
        } else if queue > limit / 2.0 {
            limit * (self.probe.back_off - 1.0)
        } else if queue > 2.0 * least {
            -step
        } else {
            0.0
        };
        self.probe.move_towards(limit + change);
    }
}
