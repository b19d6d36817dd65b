//! Steps with the lines held: new keys, states that do not fit in a slot, several keys at once.

use tidegate_core::{All, Cost, Decision, Entry as AllEntry, Op, Quota, State, Timestamp, step, step_all};

use super::elsewhere::Entry;
use super::held::{HeldLines, Many, Pair};
use super::slot::{ELSEWHERE, Slot};
use super::table::{Home, Table};

/// Which key, under which quota, and when.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) home: Home,
    pub(super) quota: &'a Quota,
    pub(super) now: Timestamp,
}

/// A slot: where it is and what it held.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) line: usize,
    pub(super) index: usize,
    pub(super) slot: Slot,
}

impl Found {
    /// Where in the other table its state is, if it is there.
    fn elsewhere(&self) -> Option<u64> {
        (self.slot.tag == ELSEWHERE).then(|| self.slot.place())
    }
}

/// A key's state, out of its slot for a step.
struct Loaded {
    found: Option<Found>,
    state: State,
    /// Where the state was moved out of and has to go back to.
    moved_from: Option<u64>,
}

impl Table {
    /// One operation with the key's lines held, for whatever an attempt without locks cannot do.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_locked(&self, target: Target<'_>, op: Op) -> Decision {
        let Target { home, now, .. } = target;
        let keep = [home.fingerprint];
        let mut lines = Pair::lock(self, home);
        let is_new_key = self.find(&lines, home).is_none();
        if is_new_key && self.free_slot(&lines, home, now, &keep).is_none() {
            drop(lines);
            self.make_room(home, now);
            lines = Pair::lock(self, home);
        }
        let mut loaded = self.load(&lines, target);
        let outcome = step(target.quota, &mut loaded.state, op, now);
        self.save(&lines, target, loaded, outcome.changed, &keep);
        drop(lines);
        if is_new_key {
            self.sweep(1, now);
        }
        self.keep_within_bytes(now);
        outcome.decision
    }

    /// Takes all or nothing. A key that occurs twice has the same quota both times.
    pub(super) fn apply_all(&self, requests: &[(Home, &Quota, Cost)], now: Timestamp) -> All {
        let mut targets: Vec<Target<'_>> = Vec::with_capacity(requests.len());
        let mut entries = Vec::with_capacity(requests.len());
        for &(home, quota, cost) in requests {
            let state = targets.iter().position(|target| target.home == home).unwrap_or_else(|| {
                targets.push(Target { home, quota, now });
                targets.len() - 1
            });
            entries.push(AllEntry { quota, cost, state });
        }
        let holds = |line: usize, home: Home| self.line(line).find(home.fingerprint).is_some();
        for Target { home, .. } in targets.iter().filter(|target| {
            // A look without a lock is enough: it only decides who looks for room beforehand.
            !holds(target.home.first, target.home) && !holds(target.home.second, target.home)
        }) {
            self.make_room(*home, now);
        }
        let lines = Many::lock(self, targets.iter().map(|target| target.home));
        let mut loaded: Vec<_> = targets.iter().map(|target| self.load(&lines, *target)).collect();
        let mut states: Vec<_> = loaded.iter_mut().map(|loaded| std::mem::take(&mut loaded.state)).collect();
        let all = step_all(&entries, &mut states, now);
        // A key of this call must not lose its slot to another one.
        let keep: Vec<_> = targets.iter().map(|target| target.home.fingerprint).collect();
        for ((target, loaded), state) in targets.iter().zip(loaded).zip(states) {
            self.save(&lines, *target, Loaded { state, ..loaded }, all.allowed(), &keep);
        }
        drop(lines);
        self.sweep(targets.len(), now);
        self.keep_within_bytes(now);
        all
    }

    pub(super) fn find(&self, lines: &impl HeldLines, home: Home) -> Option<Found> {
        [home.first, home.second].into_iter().find_map(|line| {
            let held = lines.get(line).line();
            let index = held.find(home.fingerprint)?;
            Some(Found { line, index, slot: held.slot(index) })
        })
    }

    fn load(&self, lines: &impl HeldLines, target: Target<'_>) -> Loaded {
        let found = self.find(lines, target.home);
        let Some(Found { slot, .. }) = found else { return Loaded { found, state: State::New, moved_from: None } };
        if slot.tag != ELSEWHERE {
            let written_under = self.registry.quota(slot.tag);
            let state = slot.decode(written_under).rebase(written_under, target.quota, target.now);
            return Loaded { found, state, moved_from: None };
        }
        self.elsewhere.with(slot.place(), |entry| {
            if entry.quota == *target.quota {
                Loaded { found, state: std::mem::take(&mut entry.state), moved_from: Some(slot.place()) }
            } else {
                // A look under another quota must not change what is stored.
                let state = entry.state.clone().rebase(&entry.quota, target.quota, target.now);
                Loaded { found, state, moved_from: None }
            }
        })
    }

    /// Puts a state back after a step. The keys in `keep` do not lose their slots.
    fn save(&self, lines: &impl HeldLines, target: Target<'_>, loaded: Loaded, changed: bool, keep: &[u64]) {
        let Loaded { found, state, moved_from } = loaded;
        if !changed {
            if let Some(place) = moved_from {
                self.elsewhere.with(place, |entry| entry.state = state);
            }
            return;
        }
        if state == State::New {
            if let Some(found) = found {
                self.forget(lines, found);
            }
            return;
        }
        let slot = self.slot_for(target, found.and_then(|found| found.elsewhere()), state);
        let place = found.unwrap_or_else(|| self.take_slot(lines, target.home, target.now, keep));
        lines.get(place.line).write(place.index, slot);
    }

    /// A slot for this state, and the state in the other table when it does not fit in one.
    fn slot_for(&self, target: Target<'_>, elsewhere: Option<u64>, state: State) -> Slot {
        let Target { home: Home { first, fingerprint, .. }, quota, now } = target;
        let tag = self.registry.tag(quota);
        let fitting = tag.and_then(|tag| Slot::encode(fingerprint, tag, &state));
        let pointing_to = |place, state: &State| {
            Slot::elsewhere(fingerprint, place, state.used_share(quota, now), state.new_at(quota))
        };
        match (fitting, elsewhere) {
            (Some(slot), None) => slot,
            (Some(slot), Some(place)) => {
                self.elsewhere.remove(place);
                slot
            }
            (None, Some(place)) => {
                let slot = pointing_to(place, &state);
                self.elsewhere.with(place, |entry| (entry.state, entry.quota) = (state, *quota));
                slot
            }
            (None, None) => {
                let slot = pointing_to(0, &state);
                let place = self.elsewhere.insert(Entry { fingerprint, line: first, quota: *quota, state });
                Slot { level: slot.level | place, ..slot }
            }
        }
    }
}
