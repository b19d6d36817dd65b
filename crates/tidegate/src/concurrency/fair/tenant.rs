//! One tenant who is present.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use tidegate_core::Timestamp;

use super::share::Load;

/// What is known of a tenant while it is present.
pub(super) struct Tenant {
    /// None for the place that those share for whom there is no other.
    pub(super) name: Option<Arc<str>>,
    pub(super) weight: u32,
    pub(super) guarantee: u32,
    pub(super) in_flight: u32,
    /// Who waits, first come first, by number. Whoever is not here any more was given its slot.
    pub(super) waiting: BTreeMap<u64, Option<Waker>>,
    /// A number from when it last got a slot.
    pub(super) served: u64,
    /// When it last asked or gave something back.
    pub(super) seen: Timestamp,
}

/// Where a tenant stands among those who wait, the first to be served first. Those below their guarantees come before
/// those who can only borrow; then it goes by load, and with equal loads by who has waited longest since it got something. So
/// equals take turns, however many of one wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    borrows: bool,
    load: Load,
    since: u64,
    pub(super) id: usize,
}

impl Tenant {
    /// How much of its guarantee it does not use.
    pub(super) fn lacks(&self) -> u32 {
        self.guarantee.saturating_sub(self.in_flight)
    }

    pub(super) fn is_below_guarantee(&self) -> bool {
        self.in_flight < self.guarantee
    }

    /// Whether it holds nothing and wants nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty()
    }

    /// Its rank, if somebody of it waits.
    pub(super) fn rank(&self, id: usize) -> Option<Rank> {
        let load = Load { in_flight: self.in_flight, weight: self.weight };
        let (first, _) = self.waiting.first_key_value()?;
        Some(Rank { borrows: !self.is_below_guarantee(), load, since: self.served.max(*first), id })
    }
}
