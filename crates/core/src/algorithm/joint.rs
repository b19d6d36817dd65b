//! The joint step: several requests, all or nothing.

use super::{Op, State, step};
use crate::decision::InlineVec;
use crate::{Cost, JointDecision, Quota, Timestamp};

/// One request of a joint step.
#[derive(Debug, Clone, Copy)]
pub struct JointEntry<'a> {
    /// The quota that decides.
    pub quota: &'a Quota,
    /// The units to take.
    pub cost: Cost,
    /// The index of its state. Requests with the same limit and key share one state.
    pub state: usize,
}

/// Takes every entry from its state, in order, or takes nothing. When all are allowed, every state with an entry has
/// changed.
///
/// When one entry is denied, the entries that would have been allowed report their current quota. Entries with the same
/// state are judged by their sum. That makes a retry after the longest `retry_after` succeed.
pub fn step_all(entries: &[JointEntry<'_>], states: &mut [State], now: Timestamp) -> JointDecision {
    let checked = check_all(entries, states, now);
    if !checked.allowed() {
        return checked;
    }
    let take =
        |entry: &JointEntry<'_>| step(entry.quota, &mut states[entry.state], Op::Limit(entry.cost), now).decision;
    entries.iter().map(take).collect()
}

/// Decides as [`step_all`] would, and takes nothing. An allowed entry reports its current quota.
pub fn check_all(entries: &[JointEntry<'_>], states: &mut [State], now: Timestamp) -> JointDecision {
    let mut sums: InlineVec<u64> = states.iter().map(|_| 0).collect();
    let check = |entry: &JointEntry<'_>| {
        let sum = &mut sums[entry.state];
        *sum = sum.saturating_add(entry.cost.get());
        let sum = Cost::new(*sum).expect("a sum of costs, of which each is at least 1");
        step(entry.quota, &mut states[entry.state], Op::Check(sum), now).decision
    };
    entries.iter().map(check).collect()
}
