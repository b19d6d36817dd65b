//! Who holds a place, as a plain list.

use tidegate_core::Lease;

/// Leases and when they expire, in the order in which they were admitted.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Held(Vec<(i128, Lease)>);

impl Held {
    /// Without those that have expired at `at`.
    pub(super) fn at(&self, at: i128) -> Self {
        Held(self.0.iter().copied().filter(|(expires, _)| at < *expires).collect())
    }

    pub(super) fn count(&self) -> i128 {
        self.0.len() as i128
    }

    pub(super) fn holds(&self, lease: Lease) -> bool {
        self.0.iter().any(|(_, held)| *held == lease)
    }

    /// Held until then, whether it was before or not.
    pub(super) fn hold(&mut self, lease: Lease, until: i128) {
        self.release(lease);
        self.0.push((until, lease));
    }

    pub(super) fn release(&mut self, lease: Lease) {
        self.0.retain(|(_, held)| *held != lease);
    }
}
