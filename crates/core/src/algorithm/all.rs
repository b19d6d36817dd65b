//! Several limits at once, all or nothing.

use super::{Op, State, step};
use crate::inline_vec::InlineVec;
use crate::{Cost, JointDecision, Quota, Timestamp};

/// One request among several that are taken all or nothing.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The quota it is asked under.
    pub quota: &'a Quota,
    /// What it takes.
    pub cost: Cost,
    /// Which of the states it is about: the same limit and key twice share one.
    pub state: usize,
}

/// Takes every entry from its state, in order, or nothing from any of them. When all are allowed, every state an entry
/// names has changed.
///
/// When the whole is denied, an entry that would have been allowed reports what it has. Entries that share a state
/// are judged by their sum, so that a retry after the longest `retry_after` passes as a whole.
pub fn step_all(entries: &[Entry<'_>], states: &mut [State], now: Timestamp) -> JointDecision {
    let looks = check_all(entries, states, now);
    if !looks.allowed() {
        return looks;
    }
    let take = |entry: &Entry<'_>| step(entry.quota, &mut states[entry.state], Op::Limit(entry.cost), now).decision;
    entries.iter().map(take).collect()
}

/// Answers as [`step_all`] would, and takes nothing; an entry that is allowed reports what it has.
pub fn check_all(entries: &[Entry<'_>], states: &mut [State], now: Timestamp) -> JointDecision {
    let mut asked: InlineVec<u64> = states.iter().map(|_| 0).collect();
    let look = |entry: &Entry<'_>| {
        let sum = &mut asked[entry.state];
        *sum = sum.saturating_add(entry.cost.get());
        let sum = Cost::new(*sum).expect("a sum of costs, of which each is at least 1");
        step(entry.quota, &mut states[entry.state], Op::Check(sum), now).decision
    };
    entries.iter().map(look).collect()
}
