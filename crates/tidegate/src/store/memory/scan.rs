//! Visits every key once while other threads use the table.
//!
//! Lines are read in order, most of them without a lock. Meanwhile a key could move from a later line to one that was
//! already read, and be missed. So a thread that moves a key records the move, and the scan goes back for it.
//!
//! Why no key is missed: the scan publishes the line it has reached before it reads it, and a mover writes the key to its
//! new line before it reads the scan's progress, each with a fence in between. So the scan sees the key in the new line,
//! or the mover sees that this line was already read. In the second case the mover still holds the line the key comes
//! from: either that line was read with the key in it, or the scan waits there until the move is recorded.

use tidegate_core::Timestamp;

use super::line::SLOTS;
use super::locks::{LockedLines, LockedPair};
use super::overflow::Entry;
use super::slot::{IN_OVERFLOW, Slot};
use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, fence};
use super::table::{Home, Table};

/// The progress of a scan, and the keys that moved behind it.
pub(super) struct Scan {
    /// How many lines were read, including the one being read. 0 when no scan runs.
    reached: AtomicUsize,
    /// Keys that moved to a line that was already read: that line and their fingerprint.
    behind: Mutex<Vec<(usize, u64)>>,
    /// Held by the thread that scans.
    turn: Mutex<()>,
}

impl Scan {
    pub(super) fn new() -> Self {
        Scan { reached: AtomicUsize::new(0), behind: Mutex::new(Vec::new()), turn: Mutex::new(()) }
    }

    /// Records a moved key. Must be called when the key is in its new line, with both lines held.
    pub(super) fn moved(&self, fingerprint: u64, from: usize, to: usize) {
        fence(Ordering::SeqCst);
        let reached = self.reached.load(Ordering::Relaxed);
        // The line at `reached` may not have been read yet.
        if to < reached && from + 1 >= reached {
            lock(&self.behind).push((to, fingerprint));
        }
    }

    fn reach(&self, lines: usize) {
        self.reached.store(lines, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// One scan. The next can begin when it is dropped.
struct ScanGuard<'a> {
    scan: &'a Scan,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for ScanGuard<'_> {
    fn drop(&mut self) {
        self.scan.reach(0);
        lock(&self.scan.behind).clear();
    }
}

impl Table {
    /// Calls `show` with every key that is not as good as new, and its state at that moment. A key that moves meanwhile
    /// may be shown twice. During `show`, only the lock that keeps other scans out is held.
    pub(super) fn scan<E>(&self, now: Timestamp, mut show: impl FnMut(Entry) -> Result<(), E>) -> Result<(), E> {
        let guard = ScanGuard { scan: &self.scan, _turn: lock(&self.scan.turn) };
        for line in 0..self.lines {
            guard.scan.reach(line + 1);
            self.entries(line, now).into_iter().flatten().try_for_each(&mut show)?;
            let behind = std::mem::take(&mut *lock(&guard.scan.behind));
            for (line, fingerprint) in behind {
                self.entry_of(line, fingerprint, now).map_or(Ok(()), &mut show)?;
            }
        }
        Ok(())
    }

    /// The keys of a line.
    fn entries(&self, index: usize, now: Timestamp) -> [Option<Entry>; SLOTS] {
        let slots = self.line(index).slots();
        if slots.iter().all(|slot| slot.tag != IN_OVERFLOW) {
            return slots.map(|slot| self.entry(index, slot, now));
        }
        // The overflow table may only be read by a thread that holds the line. Other lines are not locked: a lock
        // writes, which would allocate pages of the table that no key uses.
        let lines = LockedPair::lock(self, Home { first: index, second: index, fingerprint: 0 });
        let line = lines.get(index).line();
        std::array::from_fn(|slot| self.entry(index, line.slot(slot), now))
    }

    /// The key with this fingerprint that can be in this line.
    fn entry_of(&self, line: usize, fingerprint: u64, now: Timestamp) -> Option<Entry> {
        let home = Home { first: line, second: self.other(line, fingerprint), fingerprint };
        let lines = LockedPair::lock(self, home);
        let found = self.find(&lines, home)?;
        self.entry(found.line, found.slot, now)
    }

    /// The key in a slot. When its state is in the overflow table, the caller holds the line.
    fn entry(&self, line: usize, slot: Slot, now: Timestamp) -> Option<Entry> {
        let fingerprint = slot.fingerprint;
        if fingerprint == 0 || self.is_new(slot, now) {
            return None;
        }
        if slot.tag == IN_OVERFLOW {
            let copy = |entry: &mut Entry| (entry.quota, entry.state.clone());
            let (quota, state) = self.overflow.with(slot.place(), copy);
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
