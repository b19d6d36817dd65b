//! Limits that find themselves: from how long work takes, how much of it there should be at once.

mod aimd;
mod gradient2;
mod limit;
mod no_load;
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

/// Finds the limit of a [`Concurrency`](super::Concurrency). Pure: it is given times, and reads no clock.
///
/// # Contract
///
/// - [`Controller::limit`] is at least 1, and stays as it is between two samples.
/// - It does not grow while the limit is not what holds work back: see [`Sample::in_flight`].
/// - It recovers: however low an outage brought it, samples that are good again let it grow.
pub trait Controller: Send {
    /// How many may be in flight.
    fn limit(&self) -> u32;

    /// Learns from a piece of work that has ended. Samples come in the order in which work ends.
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

/// A piece of work that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// How many were in flight when it began, itself included. Far below the limit, the limit is not what is being
    /// measured. For work that leaves a [reserve](super::Concurrency::reserve) to other work, so much of the limit as it
    /// was of what that work may use.
    pub in_flight: u32,
    /// Whether it was wasted, [`Work::Dropped`](super::Work::Dropped): a sign of overload, whatever its time.
    pub dropped: bool,
}

impl Sample {
    /// How long it took; nothing when the clock went backwards.
    pub fn took(&self) -> Duration {
        self.ended.since(self.started)
    }
}
