//! `Gradient2`: follows the ratio of the latency without load and the recent latency.

use super::limit::bound_settings;
use super::probe::{ProbedLimit, TestedRound, probe_settings};
use super::{Controller, Sample};

/// A controller that follows the ratio of two latencies, that without load and that of the last round. The limit is cut
/// in that proportion, plus some headroom to try a little more. It is a good choice if only the latency is known.
///
/// It is Netflix's algorithm of that name, with other constants and three changes, which `docs/book/src/explanation/concurrency.md` in the
/// repository explains. A probe measures the latency without load: it sometimes lowers the limit for a round, while the
/// limit rejects work. Wasted work lowers the limit, and its latency is ignored. A round as fast as without load lets
/// the limit grow at once.
///
/// On a server that works on `n` at once without a queue, it settles near `tolerance * n + headroom * sqrt(n)`.
///
/// ```
/// use tidegate::concurrency::{Concurrency, Gradient2};
///
/// let pool = Concurrency::adaptive(Gradient2::default().initial(10).max(500));
/// assert_eq!(pool.limit(), 10);
/// ```
#[derive(Debug, Clone)]
pub struct Gradient2 {
    probe: ProbedLimit,
}

/// A smoothing of 0.2, a tolerance of 1.05 and a headroom of 0.2. With Netflix's tolerance of 1.5, the limit would settle half
/// as high again as needed.
impl Default for Gradient2 {
    fn default() -> Self {
        Gradient2 { probe: ProbedLimit::new(0.2, 1.05, 0.2) }
    }
}

impl Gradient2 {
    bound_settings!(probe);
    probe_settings!();
}

impl Controller for Gradient2 {
    fn limit(&self) -> u32 {
        self.probe.limit()
    }

    fn observe(&mut self, sample: &Sample) {
        let Some(TestedRound { limit, headroom, micros, baseline }) = self.probe.observe(sample) else { return };
        if micros <= baseline {
            // No work waited. At least one more: otherwise a limit would stay low for long after an outage.
            return self.probe.limit.move_to(limit + headroom.max(1.0));
        }
        let gradient = (self.probe.tolerance * baseline / micros).clamp(0.5, 1.0);
        self.probe.move_towards(limit * gradient + headroom);
    }
}
