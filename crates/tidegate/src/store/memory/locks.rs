//! Steps that hold the lines of their keys: new keys, states in the overflow table, several keys at once.
//!
//! Several lines are always locked in the order of their numbers, so that no two threads wait for each other.

use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::private::InlineVec;
use tidegate_core::{
    Cost, Decision, Entry as AllEntry, JointDecision, Op, Quota, State, Timestamp, check_all, step, step_all,
};

use super::line::LineGuard;
use super::overflow::Entry;
use super::slot::{IN_OVERFLOW, Slot};
use super::table::{Home, Table};

/// How often a new key looks for room before it takes the best slot of its own two lines.
const ATTEMPTS: u32 = 4;
/// How much older than the clock the time of a running decision may be. A key that such a decision still finds used must
/// not be swept.
const LATE: Duration = Duration::from_secs(1);

/// The search for room. At first without evicting, as long as that finds some, because another thread may take the room
/// or be in the way; then once with eviction.
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

/// A key, the quota to judge it by, and the time.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) home: Home,
    pub(super) quota: &'a Quota,
    pub(super) now: Timestamp,
}

/// A slot: its place and its content when it was read.
#[derive(Clone, Copy)]
pub(super) struct SlotRef {
    pub(super) line: usize,
    pub(super) index: usize,
    pub(super) slot: Slot,
}

impl SlotRef {
    /// The place of its state in the overflow table, if it is there.
    fn overflow(&self) -> Option<u64> {
        (self.slot.tag == IN_OVERFLOW).then(|| self.slot.place())
    }
}

/// A key's state, loaded from its slot for a step.
struct Loaded {
    found: Option<SlotRef>,
    state: State,
    /// The overflow place the state was moved out of, and must go back to.
    overflow_place: Option<u64>,
}

/// A call has more keys that share the same lines than these have slots.
#[derive(Debug)]
pub(super) struct TooManyKeys;

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
            let lines = LockedPair::lock(self, home);
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
            self.shrink_overflow(now);
            return result;
        }
    }

    /// Takes all or nothing. A key that occurs twice has the same quota both times.
    pub(super) fn apply_all(
        &self,
        requests: &[(Home, &Quota, Cost)],
        now: Timestamp,
    ) -> Result<JointDecision, TooManyKeys> {
        let mut targets: InlineVec<Target<'_>> = InlineVec::with_capacity(requests.len());
        let mut entries = InlineVec::with_capacity(requests.len());
        for &(home, quota, cost) in requests {
            let state = targets.iter().position(|target| target.home == home).unwrap_or_else(|| {
                targets.push(Target { home, quota, now });
                targets.len() - 1
            });
            entries.push(AllEntry { quota, cost, state });
        }
        let mut search = Search::default();
        loop {
            let lines = LockedSet::lock(self, targets.iter().map(|target| target.home));
            let mut loaded: InlineVec<_> = targets.iter().map(|target| self.load(&lines, *target)).collect();
            let mut states: InlineVec<_> = loaded.iter_mut().map(|loaded| std::mem::take(&mut loaded.state)).collect();
            let mut all = check_all(&entries, &mut states, now);
            let (wanting, places) = match all.allowed() {
                true => self.places_for(&lines, &targets, &loaded),
                false => (InlineVec::new(), Some(targets.iter().map(|_| None).collect())),
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
            self.shrink_overflow(now);
            return if takes || !all.allowed() { Ok(all) } else { Err(TooManyKeys) };
        }
    }

    /// The keys for which there is no free slot, and a slot for every key that has none yet: no two the same, and none of
    /// another key of the call. None when there are not that many.
    fn places_for(
        &self,
        lines: &impl LockedLines,
        targets: &[Target<'_>],
        loaded: &[Loaded],
    ) -> (InlineVec<Home>, Option<InlineVec<Option<SlotRef>>>) {
        let keep: InlineVec<_> = targets.iter().map(|target| target.home.fingerprint).collect();
        let (mut wanting, mut taken) = (InlineVec::new(), InlineVec::new());
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

    pub(super) fn find(&self, lines: &impl LockedLines, home: Home) -> Option<SlotRef> {
        [home.first, home.second].into_iter().find_map(|line| {
            let locked = lines.get(line).line();
            let index = locked.find(home.fingerprint)?;
            Some(SlotRef { line, index, slot: locked.slot(index) })
        })
    }

    fn load(&self, lines: &impl LockedLines, target: Target<'_>) -> Loaded {
        let found = self.find(lines, target.home);
        let Some(SlotRef { slot, .. }) = found else {
            return Loaded { found, state: State::New, overflow_place: None };
        };
        if slot.tag != IN_OVERFLOW {
            let written_under = self.registry.quota(slot.tag);
            let state = slot.decode(written_under).rebase(written_under, target.quota, target.now);
            return Loaded { found, state, overflow_place: None };
        }
        self.overflow.with(slot.place(), |entry| {
            if entry.quota == *target.quota {
                Loaded { found, state: std::mem::take(&mut entry.state), overflow_place: Some(slot.place()) }
            } else {
                // A look under another quota must not change what is stored.
                let state = entry.state.clone().rebase(&entry.quota, target.quota, target.now);
                Loaded { found, state, overflow_place: None }
            }
        })
    }

    /// Puts a state back after a step; a key that has no slot yet gets `place`.
    fn save(
        &self,
        lines: &impl LockedLines,
        target: Target<'_>,
        loaded: Loaded,
        changed: bool,
        place: Option<SlotRef>,
    ) {
        let Loaded { found, state, overflow_place } = loaded;
        if !changed {
            if let Some(place) = overflow_place {
                self.overflow.with(place, |entry| entry.state = state);
            }
            return;
        }
        if state == State::New {
            if let Some(found) = found {
                self.remove_slot(lines, found);
            }
            return;
        }
        let slot = self.slot_for(target, found.and_then(|found| found.overflow()), state);
        let place = found.unwrap_or_else(|| {
            let place = place.expect("a new key was given a place");
            self.empty(lines, place, target.now);
            place
        });
        lines.get(place.line).write(place.index, slot);
        if self.exceeds_share(slot) {
            self.evict(lines, SlotRef { slot, ..place }, target.now);
        }
    }

    /// A slot for this state, and the state in the overflow table when it does not fit in one.
    fn slot_for(&self, target: Target<'_>, overflow: Option<u64>, state: State) -> Slot {
        let Target { home: Home { first, fingerprint, .. }, quota, now } = target;
        let tag = self.registry.tag(quota);
        let fitting = tag.and_then(|tag| Slot::encode(fingerprint, tag, &state));
        let pointing_to = |place, state: &State| {
            Slot::overflow(fingerprint, place, state.used_share(quota, now), state.new_at(quota))
        };
        match (fitting, overflow) {
            (Some(slot), None) => slot,
            (Some(slot), Some(place)) => {
                self.overflow.remove(place);
                slot
            }
            (None, Some(place)) => {
                let slot = pointing_to(place, &state);
                self.overflow.with(place, |entry| (entry.state, entry.quota) = (state, *quota));
                slot
            }
            (None, None) => {
                let slot = pointing_to(0, &state);
                let place = self.overflow.insert(Entry { fingerprint, line: first, quota: *quota, state });
                Slot { level: slot.level | place, ..slot }
            }
        }
    }
}

/// The locked lines of one or more keys.
pub(super) trait LockedLines {
    /// One of the lines, by its number.
    fn get(&self, line: usize) -> &LineGuard<'_>;
}

/// The two locked lines of one key, which may be the same one.
pub(super) struct LockedPair<'a> {
    low: (usize, LineGuard<'a>),
    high: Option<LineGuard<'a>>,
}

impl<'a> LockedPair<'a> {
    pub(super) fn lock(table: &'a Table, home: Home) -> Self {
        let (low, high) = (home.first.min(home.second), home.first.max(home.second));
        let guard = table.line(low).lock();
        LockedPair { low: (low, guard), high: (high != low).then(|| table.line(high).lock()) }
    }
}

impl LockedLines for LockedPair<'_> {
    fn get(&self, line: usize) -> &LineGuard<'_> {
        match &self.high {
            Some(high) if line != self.low.0 => high,
            _ => &self.low.1,
        }
    }
}

/// The lines of several keys: two for each of a [`InlineVec`](tidegate_core::private::Few).
pub(super) struct LockedSet<'a>(Twice<(usize, LineGuard<'a>)>);

type Twice<T> = SmallVec<[T; 8]>;

impl<'a> LockedSet<'a> {
    pub(super) fn lock(table: &'a Table, homes: impl Iterator<Item = Home>) -> Self {
        let mut lines: Twice<_> = homes.flat_map(|home| [home.first, home.second]).collect();
        lines.sort_unstable();
        lines.dedup();
        LockedSet(lines.into_iter().map(|line| (line, table.line(line).lock())).collect())
    }
}

impl LockedLines for LockedSet<'_> {
    fn get(&self, line: usize) -> &LineGuard<'_> {
        let index = self.0.binary_search_by_key(&line, |(line, _)| *line).expect("a line of one of the keys");
        &self.0[index].1
    }
}
