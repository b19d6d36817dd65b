//! Makes room for a new key: moves keys to their other line, or evicts the key whose quota is restored soonest.

use tidegate_core::Timestamp;

use super::line::SLOTS;
use super::locks::{LockedLines, LockedPair, SlotRef};
use super::slot::{IN_OVERFLOW, Slot};
use super::sync::Ordering;
use super::table::{CandidateLines, Table};
use crate::telemetry;

/// The maximum number of keys that are moved to make room for one.
const MAX_MOVES: u32 = 3;
/// Above this load, in percent of the slots, only one key is moved. Free slots are so rare then that a longer search
/// costs more than it finds.
const CROWDED_PERCENT: usize = 95;
/// The maximum number of records of the overflow table that one call evicts.
const MAX_EVICTIONS: u32 = 4;
/// When the bytes do not suffice, one key may take one of this many shares on credit.
const SHARES: usize = 16;
/// The bytes that any key may take.
const MIN_SHARE_BYTES: usize = 4 << 10;

impl Table {
    /// Returns a slot of the key's lines that is empty, or as good as new and not of a key in `keep`. Slots in `taken` are
    /// skipped.
    pub(super) fn free_slot(
        &self,
        lines: &impl LockedLines,
        candidates: CandidateLines,
        now: Timestamp,
        keep: &[u64],
        taken: &[(usize, usize)],
    ) -> Option<SlotRef> {
        let empty = open_slots(lines, candidates, taken).find(|found| found.slot.fingerprint == 0);
        let is_idle = |found: &SlotRef| !keep.contains(&found.slot.fingerprint) && self.is_new(found.slot, now);
        empty.or_else(|| open_slots(lines, candidates, taken).find(is_idle))
    }

    /// Returns a slot for a new key: a free slot, or else the slot closest to new whose key is not in `keep`.
    pub(super) fn choose_slot(
        &self,
        lines: &impl LockedLines,
        candidates: CandidateLines,
        now: Timestamp,
        keep: &[u64],
        taken: &[(usize, usize)],
    ) -> Option<SlotRef> {
        self.free_slot(lines, candidates, now, keep, taken).or_else(|| {
            let others = open_slots(lines, candidates, taken).filter(|found| !keep.contains(&found.slot.fingerprint));
            others.min_by_key(|found| self.distance(found.slot, now))
        })
    }

    /// Claims a slot for a new key, and evicts the key in it.
    pub(super) fn claim_slot(&self, lines: &impl LockedLines, found: SlotRef, now: Timestamp) {
        if found.slot.fingerprint != 0 {
            self.evict(lines, found, now);
        }
        self.keys.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether a key takes more than its share of the bytes, on credit, while there are too many bytes. It must be
    /// evicted then: else all other keys would be evicted for it, one after the other. The state that its quota needs is
    /// not on credit.
    pub(super) fn exceeds_share(&self, slot: Slot) -> bool {
        let is_over = || self.overflow.bytes() > self.max_bytes;
        let share = (self.max_bytes / SHARES).max(MIN_SHARE_BYTES);
        slot.tag == IN_OVERFLOW && is_over() && self.overflow.is_oversized(slot.overflow_place(), share)
    }

    /// Evicts a key to make room, and counts it if it was busy.
    pub(super) fn evict(&self, lines: &impl LockedLines, found: SlotRef, now: Timestamp) {
        let busy = !self.is_new(found.slot, now);
        if busy {
            self.forgotten_busy.fetch_add(1, Ordering::Relaxed);
            telemetry::record_forgotten_busy();
        }
        self.remove_slot(lines, found);
    }

    /// Empties a slot.
    pub(super) fn remove_slot(&self, lines: &impl LockedLines, found: SlotRef) {
        if found.slot.tag == IN_OVERFLOW {
            self.overflow.remove(found.slot.overflow_place());
        }
        lines.get(found.line).clear(found.index);
        self.keys.fetch_sub(1, Ordering::Relaxed);
    }

    /// Makes room when both candidate lines are full: moves another key to its other line, if that leads to a free slot.
    /// Otherwise, with `must_evict`, evicts the key closest to new, of those in these lines and in their keys' other lines.
    /// Returns whether there was room without evicting.
    pub(super) fn make_room(&self, candidates: CandidateLines, now: Timestamp, must_evict: bool) -> bool {
        let has_room = |line: usize| self.line(line).slots().into_iter().any(|slot| self.is_free(slot, now));
        if has_room(candidates.first) || has_room(candidates.second) {
            return true;
        }
        let crowded = self.keys.load(Ordering::Relaxed) * 100 > self.lines * SLOTS * CROWDED_PERCENT;
        let moved_away = |depth| {
            self.move_one_away(candidates.first, depth, now) || self.move_one_away(candidates.second, depth, now)
        };
        let depth = if crowded { 1 } else { MAX_MOVES };
        if (1..=depth).any(moved_away) {
            return true;
        }
        if crowded || must_evict {
            self.evict_from_other_lines(candidates, now);
        }
        false
    }

    /// Evicts a key to make room in the candidate lines. It is the key closest to new in the other lines of the
    /// candidates' keys. A key of the candidate lines moves into its place. Does nothing when a key in the candidate
    /// lines is closer to new.
    fn evict_from_other_lines(&self, candidates: CandidateLines, now: Timestamp) {
        let mut closest = None;
        let mut consider = |distance, chain| {
            if closest.is_none_or(|(best, _)| distance < best) {
                closest = Some((distance, chain));
            }
        };
        for line in [candidates.first, candidates.second] {
            for slot in self.line(line).slots().into_iter().filter(|slot| slot.fingerprint != 0) {
                consider(self.distance(slot, now), None);
                let other = self.other_line(line, slot.fingerprint);
                if other != candidates.first && other != candidates.second {
                    for victim in self.line(other).slots().into_iter().filter(|victim| victim.fingerprint != 0) {
                        consider(self.distance(victim, now), Some((line, slot.fingerprint, other, victim.fingerprint)));
                    }
                }
            }
        }
        let Some((distance, Some((line, fingerprint, other, victim)))) = closest else { return };
        let lines = LockedPair::lock(self, CandidateLines { first: line, second: other, fingerprint });
        let in_line = |line: usize, fingerprint| {
            let locked = lines.get(line).line();
            locked.find(fingerprint).map(|index| SlotRef { line, index, slot: locked.slot(index) })
        };
        // Either may be gone by now, and then there may be room already; or the victim may have been used.
        if let (Some(moved), Some(victim)) = (in_line(line, fingerprint), in_line(other, victim))
            && self.distance(victim.slot, now) == distance
        {
            self.evict(&lines, victim, now);
            self.relocate(&lines, moved, victim);
        }
    }

    /// Keeps the overflow table within its bytes and without gaps, a few records at a time.
    pub(super) fn shrink_overflow(&self, now: Timestamp) {
        self.compact_overflow();
        for _ in 0..MAX_EVICTIONS {
            if self.overflow.bytes() <= self.max_bytes {
                return;
            }
            let Some(victim) = self.overflow.victim(now) else { return };
            self.with_overflow_key(victim.line, victim.fingerprint, |lines, found| {
                // It may have been used by now.
                if self.overflow.class(found.slot.overflow_place()) == victim.class {
                    self.evict(lines, found, now);
                }
            });
        }
    }

    /// Moves records of the overflow table into vacant places, so that unused memory can be freed.
    fn compact_overflow(&self) {
        for _ in 0..MAX_EVICTIONS {
            let Some((line, fingerprint)) = self.overflow.record_to_move() else { return };
            self.with_overflow_key(line, fingerprint, |lines, found| self.move_record(lines, found));
        }
    }

    /// Moves the record of a key to a vacant place before it.
    pub(super) fn move_record(&self, lines: &impl LockedLines, found: SlotRef) {
        let place = self.overflow.move_down(found.slot.overflow_place());
        lines.get(found.line).write(found.index, found.slot.with_overflow_place(place));
    }

    /// Locks the lines of a key and calls `work` if the key still has its state in the overflow table.
    pub(super) fn with_overflow_key(&self, line: usize, fingerprint: u64, work: impl FnOnce(&LockedPair<'_>, SlotRef)) {
        let candidates = CandidateLines { first: line, second: self.other_line(line, fingerprint), fingerprint };
        let lines = LockedPair::lock(self, candidates);
        if let Some(found) = self.find_slot(&lines, candidates).filter(|found| found.slot.tag == IN_OVERFLOW) {
            work(&lines, found);
        }
    }

    /// Moves one key of a line away. With some `depth` left, it first makes room for that key.
    fn move_one_away(&self, line: usize, depth: u32, now: Timestamp) -> bool {
        self.line(line).slots().into_iter().any(|slot| {
            let other = self.other_line(line, slot.fingerprint);
            slot.fingerprint != 0
                && other != line
                && (depth == 1 || self.move_one_away(other, depth - 1, now))
                && self.move_key(slot.fingerprint, line, other, now)
        })
    }

    /// Moves a key from one of its lines to the other, if there is a free slot.
    pub(super) fn move_key(&self, fingerprint: u64, from: usize, to: usize, now: Timestamp) -> bool {
        let lines = LockedPair::lock(self, CandidateLines { first: from, second: to, fingerprint });
        let (source, target) = (lines.get(from).line(), lines.get(to).line());
        let Some(index) = source.find(fingerprint) else { return false };
        let moved = SlotRef { line: from, index, slot: source.slot(index) };
        let mut slots = (0..SLOTS).map(|index| SlotRef { line: to, index, slot: target.slot(index) });
        let Some(free) = slots.find(|found| self.is_free(found.slot, now)) else { return false };
        if free.slot.fingerprint != 0 {
            self.remove_slot(&lines, free);
        }
        self.relocate(&lines, moved, free);
        true
    }

    /// Moves the key of one slot into another, which is free.
    fn relocate(&self, lines: &impl LockedLines, moved: SlotRef, free: SlotRef) {
        lines.get(free.line).write(free.index, moved.slot);
        self.scan.record_move(moved.slot.fingerprint, moved.line, free.line);
        lines.get(moved.line).clear(moved.index);
    }

    /// Returns whether a slot is empty, or as good as empty.
    fn is_free(&self, slot: Slot, now: Timestamp) -> bool {
        slot.fingerprint == 0 || self.is_new(slot, now)
    }

    /// Returns whether the key in a slot is as good as new.
    pub(super) fn is_new(&self, slot: Slot, now: Timestamp) -> bool {
        self.new_at(slot) <= now
    }

    /// Returns how far the key in a slot is from new. The eviction rank comes first, so that a flood of hardly used
    /// keys never displaces an exhausted one. The time until the key is as good as new comes second.
    fn distance(&self, slot: Slot, now: Timestamp) -> (u16, Timestamp) {
        let rank = if slot.tag == IN_OVERFLOW {
            slot.stored_rank()
        } else {
            let quota = self.registry.quota(slot.tag);
            slot.decode(quota).eviction_rank(quota, now)
        };
        (rank, self.new_at(slot))
    }

    /// Returns the time at which the key in a slot is as good as new.
    fn new_at(&self, slot: Slot) -> Timestamp {
        if slot.tag == IN_OVERFLOW {
            // The largest time that fits stands for all later times.
            let micros = if slot.time == Slot::END_OF_TIME { u64::MAX } else { slot.time };
            return Timestamp::from_micros(micros);
        }
        let quota = self.registry.quota(slot.tag);
        slot.decode(quota).new_at(quota)
    }
}

/// Returns the slots of a key's lines except the taken ones.
fn open_slots(
    lines: &impl LockedLines,
    candidates: CandidateLines,
    taken: &[(usize, usize)],
) -> impl Iterator<Item = SlotRef> {
    let second = (candidates.second != candidates.first).then_some(candidates.second);
    [Some(candidates.first), second].into_iter().flatten().flat_map(move |line| {
        let locked = lines.get(line).line();
        let slots = (0..SLOTS).map(move |index| SlotRef { line, index, slot: locked.slot(index) });
        slots.filter(|found| !taken.contains(&(found.line, found.index)))
    })
}
