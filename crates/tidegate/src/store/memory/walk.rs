//! Looking at every key once while others go on using the table.
//!
//! Lines are looked at in order, most of them without a lock. A key could move meanwhile from a line that comes later to
//! one that has had its turn, and be missed; so whoever moves one says so, and the walk goes back for it.
//!
//! Why none is missed: the walk says which line it has reached before it looks at it, and a mover writes the key to its
//! new line before it asks how far the walk is, each with a fence in between. So the walk sees the key in the new line, or
//! the mover sees that this line has had its turn. In the second case the mover still holds the line the key comes from:
//! either that one had its turn with the key in it, or the walk waits there until the mover has said where the key went.

use tidegate_core::Timestamp;

use super::elsewhere::Entry;
use super::held::{HeldLines, Pair};
use super::line::SLOTS;
use super::slot::{ELSEWHERE, Slot};
use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, fence};
use super::table::{Home, Table};

/// How far a walk is, and what has moved behind it.
pub(super) struct Walk {
    /// How many lines have had their turn, the one included that is being looked at. 0 when nobody walks.
    reached: AtomicUsize,
    /// Keys that have moved to a line that has had its turn: that line and their fingerprint.
    behind: Mutex<Vec<(usize, u64)>>,
    /// Held by the one who walks.
    turn: Mutex<()>,
}

impl Walk {
    pub(super) fn new() -> Self {
        Walk { reached: AtomicUsize::new(0), behind: Mutex::new(Vec::new()), turn: Mutex::new(()) }
    }

    /// To be called by whoever moves a key, when it is in its new line and both are held.
    pub(super) fn moved(&self, fingerprint: u64, from: usize, to: usize) {
        fence(Ordering::SeqCst);
        let reached = self.reached.load(Ordering::Relaxed);
        // The line that is being looked at may not have been read yet.
        if to < reached && from + 1 >= reached {
            lock(&self.behind).push((to, fingerprint));
        }
    }

    fn reach(&self, lines: usize) {
        self.reached.store(lines, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// One walk. The next can begin when it is dropped.
struct Walking<'a> {
    walk: &'a Walk,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for Walking<'_> {
    fn drop(&mut self) {
        self.walk.reach(0);
        lock(&self.walk.behind).clear();
    }
}

impl Table {
    /// Shows every key that is not as good as new, with a state it has at that moment. A key that moves meanwhile may be
    /// shown again later on. No lock is held while it is shown, but for the one that keeps others from walking.
    pub(super) fn walk<E>(&self, now: Timestamp, mut show: impl FnMut(Entry) -> Result<(), E>) -> Result<(), E> {
        let walking = Walking { walk: &self.walk, _turn: lock(&self.walk.turn) };
        for line in 0..self.lines {
            walking.walk.reach(line + 1);
            self.entries(line, now).into_iter().flatten().try_for_each(&mut show)?;
            let behind = std::mem::take(&mut *lock(&walking.walk.behind));
            for (line, fingerprint) in behind {
                self.entry_of(line, fingerprint, now).map_or(Ok(()), &mut show)?;
            }
        }
        Ok(())
    }

    /// The keys of a line.
    fn entries(&self, index: usize, now: Timestamp) -> [Option<Entry>; SLOTS] {
        let slots = self.line(index).slots();
        if slots.iter().all(|slot| slot.tag != ELSEWHERE) {
            return slots.map(|slot| self.entry(index, slot, now));
        }
        // What is in the other table may only be looked at by whoever holds the line. Not so for every line: a lock
        // writes, and pages of the table that nobody has used would become ours.
        let lines = Pair::lock(self, Home { first: index, second: index, fingerprint: 0 });
        let line = lines.get(index).line();
        std::array::from_fn(|slot| self.entry(index, line.slot(slot), now))
    }

    /// The key with this fingerprint that can be in this line.
    fn entry_of(&self, line: usize, fingerprint: u64, now: Timestamp) -> Option<Entry> {
        let home = Home { first: line, second: self.other(line, fingerprint), fingerprint };
        let lines = Pair::lock(self, home);
        let found = self.find(&lines, home)?;
        self.entry(found.line, found.slot, now)
    }

    /// The key in a slot. When its state is in the other table, the caller holds the line.
    fn entry(&self, line: usize, slot: Slot, now: Timestamp) -> Option<Entry> {
        let fingerprint = slot.fingerprint;
        if fingerprint == 0 || self.is_new(slot, now) {
            return None;
        }
        if slot.tag == ELSEWHERE {
            let copy = |entry: &mut Entry| (entry.quota, entry.state.clone());
            let (quota, state) = self.elsewhere.with(slot.place(), copy);
            return Some(Entry { fingerprint, line, quota, state });
        }
        let quota = *self.registry.quota(slot.tag);
        Some(Entry { fingerprint, line, quota, state: slot.decode(&quota) })
    }
}

/// Locks what a panic leaves whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
