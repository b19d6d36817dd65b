//! Steps with the lines held: new keys, states that do not fit in a slot, several keys at once.

use std::time::Duration;

use tidegate_core::private::Few;
use tidegate_core::{All, Cost, Decision, Entry as AllEntry, Op, Quota, State, Timestamp, check_all, step, step_all};

use super::elsewhere::Entry;
use super::held::{HeldLines, Many, Pair};
use super::slot::{ELSEWHERE, Slot};
use super::table::{Home, Table};

/// How often room is looked for before a new key takes what it finds in its own two lines.
const ATTEMPTS: u32 = 4;
/// How late somebody may be who has looked at the clock and decides afterwards. What was used up at the time that he knows
/// of is not to be swept before.
const LATE: Duration = Duration::from_secs(1);

/// The search for room: at first without forgetting anybody, as long as that finds some, because somebody else may be
/// quicker to use it or be in the way of finding it; then once with.
#[derive(Default)]
struct Search {
    attempts: u32,
    must: bool,
    over: bool,
}

impl Search {
    fn is_over(&self) -> bool {
        self.over
    }

    fn again(&mut self, make_room: impl FnOnce(bool) -> bool) {
        self.attempts += 1;
        let had_room = make_room(self.must);
        self.over = self.must || self.attempts == ATTEMPTS;
        self.must = !had_room;
    }
}

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

/// A call has more keys that meet in the same lines than these have slots.
#[derive(Debug)]
pub(super) struct Crowded;

impl Table {
    /// One operation with the key's lines held, for whatever an attempt without locks cannot do.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_locked(&self, target: Target<'_>, op: Op) -> Decision {
        self.change(target, |state| {
            let outcome = step(target.quota, state, op, target.now);
            (outcome.decision, outcome.changed)
        })
    }

    /// Gives a key the state it had in another table of the same size.
    pub(super) fn put(&self, entry: &Entry, now: Timestamp) {
        let Entry { fingerprint, line, quota, state } = entry;
        let home = Home { first: *line, second: self.other(*line, *fingerprint), fingerprint: *fingerprint };
        let is_new = state.is_new(quota, now);
        self.change(Target { home, quota, now }, |known| {
            let was_new = *known == State::New;
            *known = if is_new { State::New } else { state.clone() };
            ((), !(was_new && is_new))
        });
    }

    /// Changes a key's state with its lines held. The step says whether there is something to be written; it may be
    /// taken again from the beginning while room is made for a new key.
    fn change<R>(&self, target: Target<'_>, mut step: impl FnMut(&mut State) -> (R, bool)) -> R {
        let Target { home, now, .. } = target;
        let mut search = Search::default();
        loop {
            let lines = Pair::lock(self, home);
            let mut loaded = self.load(&lines, target);
            let (result, changed) = step(&mut loaded.state);
            let is_new_key = changed && loaded.found.is_none();
            if is_new_key && !search.is_over() && self.free_slot(&lines, home, now, &[], &[]).is_none() {
                // Not while the lines are held: it takes others.
                drop(lines);
                search.again(|must| self.make_room(home, now, must));
                continue;
            }
            let place = is_new_key.then(|| self.choose_slot(&lines, home, now, &[], &[])).flatten();
            self.save(&lines, target, loaded, changed, place);
            drop(lines);
            if is_new_key {
                self.sweep(1, now.saturating_sub(LATE));
            }
            self.keep_within_bytes(now);
            return result;
        }
    }

    /// Takes all or nothing. A key that occurs twice has the same quota both times.
    pub(super) fn apply_all(&self, requests: &[(Home, &Quota, Cost)], now: Timestamp) -> Result<All, Crowded> {
        let mut targets: Few<Target<'_>> = Few::with_capacity(requests.len());
        let mut entries = Few::with_capacity(requests.len());
        for &(home, quota, cost) in requests {
            let state = targets.iter().position(|target| target.home == home).unwrap_or_else(|| {
                targets.push(Target { home, quota, now });
                targets.len() - 1
            });
            entries.push(AllEntry { quota, cost, state });
        }
        let mut search = Search::default();
        loop {
            let lines = Many::lock(self, targets.iter().map(|target| target.home));
            let mut loaded: Few<_> = targets.iter().map(|target| self.load(&lines, *target)).collect();
            let mut states: Few<_> = loaded.iter_mut().map(|loaded| std::mem::take(&mut loaded.state)).collect();
            let mut all = check_all(&entries, &mut states, now);
            let (wanting, places) = match all.allowed() {
                true => self.places_for(&lines, &targets, &loaded),
                false => (Few::new(), Some(targets.iter().map(|_| None).collect())),
            };
            let has_room = wanting.is_empty() || search.is_over();
            let takes = all.allowed() && has_room && places.is_some();
            if takes {
                all = step_all(&entries, &mut states, now);
            }
            let loaded = loaded.drain(..).zip(states.drain(..)).map(|(loaded, state)| Loaded { state, ..loaded });
            let mut places = places.iter().flatten();
            for (target, loaded) in targets.iter().zip(loaded) {
                self.save(&lines, *target, loaded, takes, places.next().copied().flatten());
            }
            drop(lines);
            if !has_room {
                search.again(|must| {
                    let had_room: Vec<_> = wanting.iter().map(|home| self.make_room(*home, now, must)).collect();
                    had_room.into_iter().all(|had_room| had_room)
                });
                continue;
            }
            self.sweep(targets.len(), now.saturating_sub(LATE));
            self.keep_within_bytes(now);
            return if takes || !all.allowed() { Ok(all) } else { Err(Crowded) };
        }
    }

    /// The keys for which there is no free slot, and a slot for every key that has none yet: no two the same, and none of
    /// another key of the call. None when there are not that many.
    fn places_for(
        &self,
        lines: &impl HeldLines,
        targets: &[Target<'_>],
        loaded: &[Loaded],
    ) -> (Few<Home>, Option<Few<Option<Found>>>) {
        let keep: Few<_> = targets.iter().map(|target| target.home.fingerprint).collect();
        let (mut wanting, mut taken) = (Few::new(), Few::new());
        let place = |(Target { home, now, .. }, loaded): (&Target<'_>, &Loaded)| {
            if loaded.found.is_some() {
                return Some(None);
            }
            if self.free_slot(lines, *home, *now, &keep, &taken).is_none() {
                wanting.push(*home);
            }
            let place = self.choose_slot(lines, *home, *now, &keep, &taken)?;
            taken.push((place.line, place.index));
            Some(Some(place))
        };
        let places = targets.iter().zip(loaded).map(place).collect();
        (wanting, places)
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

    /// Puts a state back after a step; a key that has no slot yet gets `place`.
    fn save(&self, lines: &impl HeldLines, target: Target<'_>, loaded: Loaded, changed: bool, place: Option<Found>) {
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
        let place = found.unwrap_or_else(|| {
            let place = place.expect("a new key was given a place");
            self.empty(lines, place, target.now);
            place
        });
        lines.get(place.line).write(place.index, slot);
        if self.takes_too_much(slot) {
            self.give_up(lines, Found { slot, ..place }, target.now);
        }
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
