//! Steps that hold the lines of their keys: new keys, states in the overflow table, several keys at once.
//!
//! Several lines are always locked in the order of their numbers, so that no two threads wait for each other.

use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::private::InlineVec;
use tidegate_core::{
    Cost, Decision, JointDecision, JointEntry, Op, Quota, State, Timestamp, check_all, step, step_all,
};

use super::line::LineGuard;
use super::overflow::{KeyRecord, eviction_class};
use super::slot::{IN_OVERFLOW, Slot};
use super::table::{CandidateLines, Table};

/// The number of searches for room before a new key takes the best slot of its own two lines.
const MAX_ATTEMPTS: u32 = 4;
/// The maximum age of a running decision's time. A key that such a decision still finds used must not be swept.
const MAX_CLOCK_AGE: Duration = Duration::from_secs(1);

/// A search for room. It first moves keys, several times, because another thread may take the room; then it evicts once.
#[derive(Default)]
struct RoomSearch {
    attempts: u32,
    must_evict: bool,
    exhausted: bool,
}

impl RoomSearch {
    fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    fn retry(&mut self, make_room: impl FnOnce(bool) -> bool) {
        self.attempts += 1;
        let had_room = make_room(self.must_evict);
        self.exhausted = self.must_evict || self.attempts == MAX_ATTEMPTS;
        self.must_evict = !had_room;
    }
}

/// The target of a step: a key, its quota and the time.
#[derive(Clone, Copy)]
pub(super) struct StepTarget<'a> {
    pub(super) candidates: CandidateLines,
    pub(super) quota: &'a Quota,
    pub(super) now: Timestamp,
}

/// A reference to a slot: its position, and its content when it was read.
#[derive(Clone, Copy)]
pub(super) struct SlotRef {
    pub(super) line: usize,
    pub(super) index: usize,
    pub(super) slot: Slot,
}

impl SlotRef {
    /// Returns the place of its state in the overflow table, if it is there.
    fn overflow_place(&self) -> Option<u64> {
        (self.slot.tag == IN_OVERFLOW).then(|| self.slot.overflow_place())
    }
}

/// A key's state, loaded for a step.
struct LoadedState {
    found: Option<SlotRef>,
    state: State,
    /// The overflow place that the state was moved out of, and must return to.
    overflow_place: Option<u64>,
}

/// The error of a call with more keys in the same lines than the lines have slots.
#[derive(Debug)]
pub(super) struct TooManyKeys;

impl Table {
    /// Applies one operation with the key's lines locked, where an attempt without locks cannot.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_locked(&self, target: StepTarget<'_>, op: Op) -> Decision {
        self.update(target, |state| {
            let outcome = step(target.quota, state, op, target.now);
            (outcome.decision, outcome.changed)
        })
    }

    /// Restores the state that a key had in another table of the same size.
    pub(super) fn restore(&self, entry: &KeyRecord, now: Timestamp) {
        let KeyRecord { fingerprint, line, quota, state } = entry;
        let candidates =
            CandidateLines { first: *line, second: self.other_line(*line, *fingerprint), fingerprint: *fingerprint };
        let is_new = state.is_new(quota, now);
        self.update(StepTarget { candidates, quota, now }, |known| {
            let was_new = *known == State::New;
            *known = if is_new { State::New } else { state.clone() };
            ((), !(was_new && is_new))
        });
    }

    /// Updates a key's state with its lines locked. The step returns whether the state must be written. It is repeated
    /// after room was made for a new key.
    fn update<R>(&self, target: StepTarget<'_>, mut step: impl FnMut(&mut State) -> (R, bool)) -> R {
        let StepTarget { candidates, now, .. } = target;
        let mut search = RoomSearch::default();
        loop {
            let lines = LockedPair::lock(self, candidates);
            let mut loaded = self.load_state(&lines, target);
            let (result, changed) = step(&mut loaded.state);
            let is_new_key = changed && loaded.found.is_none();
            if is_new_key && !search.is_exhausted() && self.free_slot(&lines, candidates, now, &[], &[]).is_none() {
                // Not while the lines are locked: it locks others.
                drop(lines);
                search.retry(|must_evict| self.make_room(candidates, now, must_evict));
                continue;
            }
            let place = is_new_key.then(|| self.choose_slot(&lines, candidates, now, &[], &[])).flatten();
            self.save_state(&lines, target, loaded, changed, place);
            drop(lines);
            if is_new_key {
                self.sweep(1, now.saturating_sub(MAX_CLOCK_AGE));
            }
            self.shrink_overflow(now);
            return result;
        }
    }

    /// Takes all or nothing. A key that occurs twice has the same quota both times.
    pub(super) fn apply_all(
        &self,
        requests: &[(CandidateLines, &Quota, Cost)],
        now: Timestamp,
    ) -> Result<JointDecision, TooManyKeys> {
        let mut targets: InlineVec<StepTarget<'_>> = InlineVec::with_capacity(requests.len());
        let mut entries = InlineVec::with_capacity(requests.len());
        for &(candidates, quota, cost) in requests {
            let state = targets.iter().position(|target| target.candidates == candidates).unwrap_or_else(|| {
                targets.push(StepTarget { candidates, quota, now });
                targets.len() - 1
            });
            entries.push(JointEntry { quota, cost, state });
        }
        let mut search = RoomSearch::default();
        loop {
            let lines = LockedSet::lock(self, targets.iter().map(|target| target.candidates));
            let mut loaded: InlineVec<_> = targets.iter().map(|target| self.load_state(&lines, *target)).collect();
            let mut states: InlineVec<_> = loaded.iter_mut().map(|loaded| std::mem::take(&mut loaded.state)).collect();
            let mut all = check_all(&entries, &mut states, now);
            let (without_room, places) = match all.allowed() {
                true => self.choose_slots(&lines, &targets, &loaded),
                false => (InlineVec::new(), Some(targets.iter().map(|_| None).collect())),
            };
            let has_room = without_room.is_empty() || search.is_exhausted();
            let takes = all.allowed() && has_room && places.is_some();
            if takes {
                all = step_all(&entries, &mut states, now);
            }
            let loaded = loaded.drain(..).zip(states.drain(..)).map(|(loaded, state)| LoadedState { state, ..loaded });
            let mut places = places.iter().flatten();
            for (target, loaded) in targets.iter().zip(loaded) {
                self.save_state(&lines, *target, loaded, takes, places.next().copied().flatten());
            }
            drop(lines);
            if !has_room {
                search.retry(|must_evict| {
                    let had_room: Vec<_> =
                        without_room.iter().map(|candidates| self.make_room(*candidates, now, must_evict)).collect();
                    had_room.into_iter().all(|had_room| had_room)
                });
                continue;
            }
            self.sweep(targets.len(), now.saturating_sub(MAX_CLOCK_AGE));
            self.shrink_overflow(now);
            return if takes || !all.allowed() { Ok(all) } else { Err(TooManyKeys) };
        }
    }

    /// Returns the keys for which there is no free slot, and a slot for every key that has none yet. Each slot is chosen
    /// once, and none belongs to another key of the call. The slots are `None` when there are not enough.
    fn choose_slots(
        &self,
        lines: &impl LockedLines,
        targets: &[StepTarget<'_>],
        loaded: &[LoadedState],
    ) -> (InlineVec<CandidateLines>, Option<InlineVec<Option<SlotRef>>>) {
        let keep: InlineVec<_> = targets.iter().map(|target| target.candidates.fingerprint).collect();
        let (mut without_room, mut taken) = (InlineVec::new(), InlineVec::new());
        let place = |(StepTarget { candidates, now, .. }, loaded): (&StepTarget<'_>, &LoadedState)| {
            if loaded.found.is_some() {
                return Some(None);
            }
            if self.free_slot(lines, *candidates, *now, &keep, &taken).is_none() {
                without_room.push(*candidates);
            }
            let place = self.choose_slot(lines, *candidates, *now, &keep, &taken)?;
            taken.push((place.line, place.index));
            Some(Some(place))
        };
        let places = targets.iter().zip(loaded).map(place).collect();
        (without_room, places)
    }

    pub(super) fn find_slot(&self, lines: &impl LockedLines, candidates: CandidateLines) -> Option<SlotRef> {
        [candidates.first, candidates.second].into_iter().find_map(|line| {
            let locked = lines.get(line).line();
            let index = locked.find(candidates.fingerprint)?;
            Some(SlotRef { line, index, slot: locked.slot(index) })
        })
    }

    fn load_state(&self, lines: &impl LockedLines, target: StepTarget<'_>) -> LoadedState {
        let found = self.find_slot(lines, target.candidates);
        let Some(SlotRef { slot, .. }) = found else {
            return LoadedState { found, state: State::New, overflow_place: None };
        };
        if slot.tag != IN_OVERFLOW {
            let written_under = self.registry.quota(slot.tag);
            let state = slot.decode(written_under).rebase(written_under, target.quota, target.now);
            return LoadedState { found, state, overflow_place: None };
        }
        self.overflow.with_record(slot.overflow_place(), |entry| {
            if entry.quota == *target.quota {
                LoadedState {
                    found,
                    state: std::mem::take(&mut entry.state),
                    overflow_place: Some(slot.overflow_place()),
                }
            } else {
                // A check under another quota must not change the stored state.
                let state = entry.state.clone().rebase(&entry.quota, target.quota, target.now);
                LoadedState { found, state, overflow_place: None }
            }
        })
    }

    /// Saves a state after a step. A key that has no slot yet gets `place`.
    fn save_state(
        &self,
        lines: &impl LockedLines,
        target: StepTarget<'_>,
        loaded: LoadedState,
        changed: bool,
        place: Option<SlotRef>,
    ) {
        let LoadedState { found, state, overflow_place } = loaded;
        if !changed {
            if let Some(place) = overflow_place {
                self.overflow.with_record(place, |entry| entry.state = state);
            }
            return;
        }
        if state == State::New {
            if let Some(found) = found {
                self.remove_slot(lines, found);
            }
            return;
        }
        let slot = self.slot_for(target, found.and_then(|found| found.overflow_place()), state);
        let place = found.unwrap_or_else(|| {
            let place = place.expect("a new key was given a place");
            self.claim_slot(lines, place, target.now);
            place
        });
        lines.get(place.line).write(place.index, slot);
        if self.exceeds_share(slot) {
            self.evict(lines, SlotRef { slot, ..place }, target.now);
        }
    }

    /// Returns a slot for this state. A state that does not fit in one is stored in the overflow table.
    fn slot_for(&self, target: StepTarget<'_>, overflow: Option<u64>, state: State) -> Slot {
        let StepTarget { candidates: CandidateLines { first, fingerprint, .. }, quota, now } = target;
        let tag = self.registry.tag(quota);
        let fitting = tag.and_then(|tag| Slot::encode(fingerprint, tag, &state));
        match (fitting, overflow) {
            (Some(slot), None) => slot,
            (Some(slot), Some(place)) => {
                self.overflow.remove(place);
                slot
            }
            (None, place) => {
                let (rank, new_at) = (state.eviction_rank(quota, now), state.new_at(quota));
                let class = eviction_class(rank, new_at, now);
                let place = match place {
                    Some(place) => {
                        self.overflow.replace(place, state, quota, class);
                        place
                    }
                    None => {
                        let record = KeyRecord { fingerprint, line: first, quota: *quota, state };
                        self.overflow.insert(record, class)
                    }
                };
                Slot::for_overflow(fingerprint, place, rank, new_at)
            }
        }
    }
}

/// The locked lines of one or more keys.
pub(super) trait LockedLines {
    /// Returns one of the lines, by its number.
    fn get(&self, line: usize) -> &LineGuard<'_>;
}

/// The two locked lines of one key, which may be the same one.
pub(super) struct LockedPair<'a> {
    low: (usize, LineGuard<'a>),
    high: Option<LineGuard<'a>>,
}

impl<'a> LockedPair<'a> {
    pub(super) fn lock(table: &'a Table, candidates: CandidateLines) -> Self {
        let (low, high) = (candidates.first.min(candidates.second), candidates.first.max(candidates.second));
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

/// The locked lines of several keys.
pub(super) struct LockedSet<'a>(LineVec<(usize, LineGuard<'a>)>);

/// A list with room for the two lines of every key in an [`InlineVec`].
type LineVec<T> = SmallVec<[T; 8]>;

impl<'a> LockedSet<'a> {
    pub(super) fn lock(table: &'a Table, candidates: impl Iterator<Item = CandidateLines>) -> Self {
        let mut lines: LineVec<_> = candidates.flat_map(|candidates| [candidates.first, candidates.second]).collect();
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
