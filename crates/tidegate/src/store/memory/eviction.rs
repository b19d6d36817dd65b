//! Finds room for a new key: moves keys to their other line, or evicts the one closest to new.

use tidegate_core::Timestamp;

use super::line::SLOTS;
use super::locks::{LockedLines, LockedPair, SlotRef};
use super::slot::{IN_OVERFLOW, Slot};
use super::sync::Ordering;
use super::table::{Home, Table};

/// How many keys may be moved to make room for one.
const DEPTH: u32 = 3;
/// Above this load, in percent of the slots, only one is: with free slots this rare, a longer search costs more than the
/// few it finds.
const CROWDED: usize = 95;
/// How many entries of the overflow table are looked at when one has to go.
const CANDIDATES: usize = 8;
/// Of how many parts one key may take one where the bytes do not suffice, and what anyone may take.
const PARTS: usize = 16;
const LITTLE: usize = 4 << 10;

impl Table {
    /// A slot of the key's lines that is empty, or as good as new and not of a key in `keep`; not one that is `taken`.
    pub(super) fn free_slot(
        &self,
        lines: &impl LockedLines,
        home: Home,
        now: Timestamp,
        keep: &[u64],
        taken: &[(usize, usize)],
    ) -> Option<SlotRef> {
        let empty = open_slots(lines, home, taken).find(|found| found.slot.fingerprint == 0);
        let is_idle = |found: &SlotRef| !keep.contains(&found.slot.fingerprint) && self.is_new(found.slot, now);
        empty.or_else(|| open_slots(lines, home, taken).find(is_idle))
    }

    /// A slot for a new key: a free one, or else the one that is closest to new and not of a key in `keep`.
    pub(super) fn choose_slot(
        &self,
        lines: &impl LockedLines,
        home: Home,
        now: Timestamp,
        keep: &[u64],
        taken: &[(usize, usize)],
    ) -> Option<SlotRef> {
        self.free_slot(lines, home, now, keep, taken).or_else(|| {
            let others = open_slots(lines, home, taken).filter(|found| !keep.contains(&found.slot.fingerprint));
            others.min_by_key(|found| self.distance(found.slot, now))
        })
    }

    /// Empties a slot for a new key, and counts what that cost.
    pub(super) fn empty(&self, lines: &impl LockedLines, found: SlotRef, now: Timestamp) {
        if found.slot.fingerprint != 0 {
            self.evict(lines, found, now);
        }
        self.keys.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a key takes more than its part of the bytes, and on credit, while there are too many. It goes then: else
    /// everybody beside it would be forgotten for it, one after the other. What its quota has a key remember is its own.
    pub(super) fn exceeds_share(&self, slot: Slot) -> bool {
        let is_over = || self.overflow.bytes() > self.max_bytes;
        let largest = (self.max_bytes / PARTS).max(LITTLE);
        slot.tag == IN_OVERFLOW && is_over() && self.overflow.is_larger_on_credit(slot.place(), largest)
    }

    /// Forgets a key for want of room, and counts it if it was busy.
    pub(super) fn evict(&self, lines: &impl LockedLines, found: SlotRef, now: Timestamp) {
        let busy = !self.is_new(found.slot, now);
        self.forgotten_busy.fetch_add(busy.into(), Ordering::Relaxed);
        self.remove_slot(lines, found);
    }

    /// Empties a slot.
    pub(super) fn remove_slot(&self, lines: &impl LockedLines, found: SlotRef) {
        if found.slot.tag == IN_OVERFLOW {
            self.overflow.remove(found.slot.place());
        }
        lines.get(found.line).clear(found.index);
        self.keys.fetch_sub(1, Ordering::Relaxed);
    }

    /// When both lines of a key are full, moves another key to its own other line, if that leads to a free slot; or
    /// else, if it `must`, forgets, of all the keys in these lines and behind them, the one that is closest to new. Says
    /// whether there was room without that.
    pub(super) fn make_room(&self, home: Home, now: Timestamp, must: bool) -> bool {
        let has_room = |line: usize| self.line(line).slots().into_iter().any(|slot| self.is_free(slot, now));
        if has_room(home.first) || has_room(home.second) {
            return true;
        }
        let crowded = self.keys.load(Ordering::Relaxed) * 100 > self.lines * SLOTS * CROWDED;
        let moved = |depth| self.empty_one(home.first, depth, now) || self.empty_one(home.second, depth, now);
        let depth = if crowded { 1 } else { DEPTH };
        if (1..=depth).any(moved) {
            return true;
        }
        if crowded || must {
            self.evict_behind(home, now);
        }
        false
    }

    /// Forgets the key that is closest to new among those behind a home, and moves one of the home's keys there. Does
    /// nothing when a key of the home itself is closer.
    fn evict_behind(&self, home: Home, now: Timestamp) {
        let mut closest = None;
        let mut consider = |distance, behind| {
            if closest.is_none_or(|(best, _)| distance < best) {
                closest = Some((distance, behind));
            }
        };
        for line in [home.first, home.second] {
            for slot in self.line(line).slots().into_iter().filter(|slot| slot.fingerprint != 0) {
                consider(self.distance(slot, now), None);
                let other = self.other(line, slot.fingerprint);
                if other != home.first && other != home.second {
                    for victim in self.line(other).slots().into_iter().filter(|victim| victim.fingerprint != 0) {
                        consider(self.distance(victim, now), Some((line, slot.fingerprint, other, victim.fingerprint)));
                    }
                }
            }
        }
        let Some((distance, Some((line, fingerprint, other, victim)))) = closest else { return };
        let lines = LockedPair::lock(self, Home { first: line, second: other, fingerprint });
        let in_line = |line: usize, fingerprint| {
            let locked = lines.get(line).line();
            locked.find(fingerprint).map(|index| SlotRef { line, index, slot: locked.slot(index) })
        };
        // Either may be gone by now, and then there may be room already; or the victim may have been used.
        if let (Some(moved), Some(victim)) = (in_line(line, fingerprint), in_line(other, victim))
            && self.distance(victim.slot, now) == distance
        {
            self.evict(&lines, victim, now);
            self.shift(&lines, moved, victim);
        }
    }

    /// Keeps the overflow table within its bytes, a few entries at a time.
    pub(super) fn shrink_overflow(&self, now: Timestamp) {
        for _ in 0..4 {
            if self.overflow.bytes() <= self.max_bytes {
                return;
            }
            let Some((first, fingerprint)) = self.overflow.closest_to_new(CANDIDATES, now) else { return };
            let home = Home { first, second: self.other(first, fingerprint), fingerprint };
            let lines = LockedPair::lock(self, home);
            // It may be gone, or have come to fit in its slot, by now.
            if let Some(found) = self.find(&lines, home)
                && found.slot.tag == IN_OVERFLOW
            {
                self.evict(&lines, found, now);
            }
        }
    }

    /// Moves one key of a line away, after making room for it in turn when `depth` allows.
    fn empty_one(&self, line: usize, depth: u32, now: Timestamp) -> bool {
        self.line(line).slots().into_iter().any(|slot| {
            let other = self.other(line, slot.fingerprint);
            slot.fingerprint != 0
                && other != line
                && (depth == 1 || self.empty_one(other, depth - 1, now))
                && self.move_key(slot.fingerprint, line, other, now)
        })
    }

    /// Moves a key from one of its lines to the other, if there is a free slot.
    pub(super) fn move_key(&self, fingerprint: u64, from: usize, to: usize, now: Timestamp) -> bool {
        let lines = LockedPair::lock(self, Home { first: from, second: to, fingerprint });
        let (source, target) = (lines.get(from).line(), lines.get(to).line());
        let Some(index) = source.find(fingerprint) else { return false };
        let moved = SlotRef { line: from, index, slot: source.slot(index) };
        let mut slots = (0..SLOTS).map(|index| SlotRef { line: to, index, slot: target.slot(index) });
        let Some(free) = slots.find(|found| self.is_free(found.slot, now)) else { return false };
        if free.slot.fingerprint != 0 {
            self.remove_slot(&lines, free);
        }
        self.shift(&lines, moved, free);
        true
    }

    /// Puts the key of one slot into another, which is free.
    fn shift(&self, lines: &impl LockedLines, moved: SlotRef, free: SlotRef) {
        lines.get(free.line).write(free.index, moved.slot);
        self.scan.moved(moved.slot.fingerprint, moved.line, free.line);
        lines.get(moved.line).clear(moved.index);
    }

    /// Whether a slot is empty, or as good as empty.
    fn is_free(&self, slot: Slot, now: Timestamp) -> bool {
        slot.fingerprint == 0 || self.is_new(slot, now)
    }

    /// Whether the key in a slot is as good as new.
    pub(super) fn is_new(&self, slot: Slot, now: Timestamp) -> bool {
        self.new_at(slot) <= now
    }

    /// How far the key in a slot is from new: first by how much of its capacity is used, so that a flood of keys that
    /// were hardly used never pushes out an exhausted one, and then by when it will be as good as new.
    fn distance(&self, slot: Slot, now: Timestamp) -> (u16, Timestamp) {
        let used = if slot.tag == IN_OVERFLOW {
            slot.written_share()
        } else {
            let quota = self.registry.quota(slot.tag);
            slot.decode(quota).used_share(quota, now)
        };
        (used, self.new_at(slot))
    }

    /// When the key in a slot will be as good as new.
    fn new_at(&self, slot: Slot) -> Timestamp {
        if slot.tag == IN_OVERFLOW {
            // The end of what fits means "later than that".
            let micros = if slot.time == Slot::END_OF_TIME { u64::MAX } else { slot.time };
            return Timestamp::from_micros(micros);
        }
        let quota = self.registry.quota(slot.tag);
        slot.decode(quota).new_at(quota)
    }
}

/// The slots of a key's lines but for those that are taken.
fn open_slots(lines: &impl LockedLines, home: Home, taken: &[(usize, usize)]) -> impl Iterator<Item = SlotRef> {
    let second = (home.second != home.first).then_some(home.second);
    [Some(home.first), second].into_iter().flatten().flat_map(move |line| {
        let locked = lines.get(line).line();
        let slots = (0..SLOTS).map(move |index| SlotRef { line, index, slot: locked.slot(index) });
        slots.filter(|found| !taken.contains(&(found.line, found.index)))
    })
}
