//! Controllers: algorithms that adapt a concurrency limit to the latency of the work.

mod aimd;
mod gradient2;
mod limit;
mod probe;
mod rounds;
#[cfg(test)]
mod tests;
mod vegas;

use std::time::Duration;

use tidegate_core::Timestamp;

pub use aimd::Aimd;
pub use gradient2::Gradient2;
pub use vegas::Vegas;

/// An algorithm that adapts the limit of a [`Concurrency`](super::Concurrency). It reads no clock.
///
/// # Contract
///
/// - [`Controller::limit`] is at least 1, and stays as it is between two samples.
/// - The limit does not grow while fewer are in flight than it allows: see [`Sample::in_flight`].
/// - The limit recovers: however low an outage brought it, good samples let it grow again.
pub trait Controller: Send {
    /// Returns how many may be in flight.
    fn limit(&self) -> u32;

    /// Learns from work that has ended. Samples come in the order in which work ends.
    fn observe(&mut self, sample: &Sample);
}

impl<C: Controller + ?Sized> Controller for Box<C> {
    fn limit(&self) -> u32 {
        C::limit(self)
    }

    fn observe(&mut self, sample: &Sample) {
        C::observe(self, sample);
    }
}

/// Work that has ended: the input of a [`Controller`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The start of the work.
    pub started: Timestamp,
    /// The end of the work.
    pub ended: Timestamp,
    /// The number in flight at its start, including itself. Far below the limit, a sample says nothing about the limit.
    /// For work that leaves a [reserve](super::Concurrency::reserve), it is scaled from the part of the limit that the
    /// work may use.
    pub in_flight: u32,
    /// Whether the work was wasted, [`Completion::Dropped`](super::Completion::Dropped): a sign of overload at any
    /// latency.
    pub dropped: bool,
}

impl Sample {
    /// Returns how long it took, or zero when the clock was set back.
    pub fn latency(&self) -> Duration {
        self.ended.since(self.started)
    }
}
