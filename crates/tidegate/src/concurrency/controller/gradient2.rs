//! The time without load against the time of late.

use super::limit::bounds;
use super::probe::{Probe, Tried, probing};
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
    probe: Probe,
}

/// A smoothing of 0.2, a tolerance of 1.05 and a headroom of 0.2. With a tolerance of 1.5, Netflix's number, the limit would
/// settle half as high again as it needs to be.
impl Default for Gradient2 {
    fn default() -> Self {
        Gradient2 { probe: Probe::new(0.2, 1.05, 0.2) }
    }
}

impl Gradient2 {
    bounds!(probe);
    probing!();
}

impl Controller for Gradient2 {
    fn limit(&self) -> u32 {
        self.probe.limit()
    }

    fn observe(&mut self, sample: &Sample) {
        let Some(Tried { limit, headroom, micros, no_load }) = self.probe.observe(sample) else { return };
        if micros <= no_load {
            // Nobody waited. At least one more, or a limit that an outage has brought down would stay there for long.
            return self.probe.limit.move_to(limit + headroom.max(1.0));
        }
        let gradient = (self.probe.tolerance * no_load / micros).clamp(0.5, 1.0);
        self.probe.go_towards(limit * gradient + headroom);
    }
}
