//! Several limits at once, all or nothing.

use super::{Op, State, step};
use crate::{All, Cost, Decision, Quota, Timestamp};

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

/// Takes every entry from its state, in order, or nothing from any of them. Says whether anything was taken: then
/// every state an entry names has changed.
///
/// When the whole is denied, an entry that would have been allowed reports what it has. Entries that share a state
/// are judged by their sum, so that a retry after the longest `retry_after` passes as a whole.
pub fn step_all(entries: &[Entry<'_>], states: &mut [State], now: Timestamp) -> All {
    let mut asked = vec![0_u64; states.len()];
    let looks: Vec<Decision> = entries
        .iter()
        .map(|entry| {
            let sum = asked[entry.state].saturating_add(entry.cost.get());
            asked[entry.state] = sum;
            let sum = Cost::new(sum).unwrap_or(entry.cost);
            step(entry.quota, &mut states[entry.state], Op::Check(sum), now).decision
        })
        .collect();
    let looks = All::new(looks);
    if !looks.allowed() {
        return looks;
    }
    let take = |entry: &Entry<'_>| step(entry.quota, &mut states[entry.state], Op::Limit(entry.cost), now).decision;
    All::new(entries.iter().map(take).collect())
}
