//! How many of those in flight wait in a queue.

use super::limit::bounds;
use super::probe::{Probe, Tried, probing};
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
    probe: Probe,
}

/// A smoothing of 1, a tolerance of 1.03 and a headroom of 0.15. Without any tolerance even a small error in the time without
/// load would look like a long queue to a high limit.
impl Default for Vegas {
    fn default() -> Self {
        Vegas { probe: Probe::new(1.0, 1.03, 0.15) }
    }
}

impl Vegas {
    bounds!(probe);
    probing!();
}

impl Controller for Vegas {
    fn limit(&self) -> u32 {
        self.probe.limit()
    }

    fn observe(&mut self, sample: &Sample) {
        let Some(Tried { limit, headroom: least, micros, no_load }) = self.probe.observe(sample) else { return };
        let step = f64::from(self.probe.limit.whole().ilog10().max(1));
        let queue = limit * (1.0 - self.probe.tolerance * no_load / micros);
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
        self.probe.go_towards(limit + change);
    }
}
