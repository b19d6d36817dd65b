//! Visits every key once while other threads use the table.
//!
//! Lines are read in order, most of them without a lock. Meanwhile a key could move from a later line to one that was
//! already read, and be missed. So a thread that moves a key records the move, and the scan goes back for it.
//!
//! Why no key is missed: the scan publishes a line's number before it reads the line. A mover writes the key to its new
//! line before it reads the scan's progress. Each has a fence in between. So the scan sees the key in the new line, or
//! the mover sees that the scan has already read this line.
//!
//! In the second case the mover still holds the key's old line. Either the scan has read that line with the key in it,
//! or it waits there until the move is recorded.

use tidegate_core::Timestamp;

use super::line::SLOTS;
use super::locks::{LockedLines, LockedPair};
use super::overflow::KeyRecord;
use super::slot::{IN_OVERFLOW, Slot};
use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, fence};
use super::table::{CandidateLines, Table};

/// The progress of a scan, and the keys that moved behind it.
pub(super) struct ScanProgress {
    /// The number of lines read so far, including the current one. 0 when no scan runs.
    lines_reached: AtomicUsize,
    /// Keys that moved to a line after it was read: that line and their fingerprint.
    missed_moves: Mutex<Vec<(usize, u64)>>,
    /// Locked by the thread that scans.
    running: Mutex<()>,
}

impl ScanProgress {
    pub(super) fn new() -> Self {
        ScanProgress {
            lines_reached: AtomicUsize::new(0),
            missed_moves: Mutex::new(Vec::new()),
            running: Mutex::new(()),
        }
    }

    /// Records a moved key. Must be called when the key is in its new line, with both lines held.
    pub(super) fn record_move(&self, fingerprint: u64, from: usize, to: usize) {
        fence(Ordering::SeqCst);
        let lines_reached = self.lines_reached.load(Ordering::Relaxed);
        // The line at `lines_reached` may not have been read yet.
        if to < lines_reached && from + 1 >= lines_reached {
            lock(&self.missed_moves).push((to, fingerprint));
        }
    }

    fn set_lines_reached(&self, lines: usize) {
        self.lines_reached.store(lines, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// One scan. The next can begin when it is dropped.
struct ScanGuard<'a> {
    scan: &'a ScanProgress,
    _running: MutexGuard<'a, ()>,
}

impl Drop for ScanGuard<'_> {
    fn drop(&mut self) {
        self.scan.set_lines_reached(0);
        lock(&self.scan.missed_moves).clear();
    }
}

impl Table {
    /// Calls `show` with the record of every key that is not as good as new. A key that moves meanwhile may be shown
    /// twice. During `show`, only the lock against other scans is held.
    pub(super) fn scan<E>(&self, now: Timestamp, mut show: impl FnMut(KeyRecord) -> Result<(), E>) -> Result<(), E> {
        let guard = ScanGuard { scan: &self.scan, _running: lock(&self.scan.running) };
        for line in 0..self.lines {
            guard.scan.set_lines_reached(line + 1);
            self.records_in_line(line, now).into_iter().flatten().try_for_each(&mut show)?;
            let missed_moves = std::mem::take(&mut *lock(&guard.scan.missed_moves));
            for (line, fingerprint) in missed_moves {
                self.record_of(line, fingerprint, now).map_or(Ok(()), &mut show)?;
            }
        }
        Ok(())
    }

    /// Returns the records of the keys in a line.
    fn records_in_line(&self, index: usize, now: Timestamp) -> [Option<KeyRecord>; SLOTS] {
        let slots = self.line(index).slots();
        if slots.iter().all(|slot| slot.tag != IN_OVERFLOW) {
            return slots.map(|slot| self.record_in_slot(index, slot, now));
        }
        // The overflow table may only be read by a thread that holds the line. Other lines are not locked: a lock
        // writes, which would allocate pages of the table that no key uses.
        let lines = LockedPair::lock(self, CandidateLines { first: index, second: index, fingerprint: 0 });
        let line = lines.get(index).line();
        std::array::from_fn(|slot| self.record_in_slot(index, line.slot(slot), now))
    }

    /// Returns the record of the key with this fingerprint that can be in this line.
    fn record_of(&self, line: usize, fingerprint: u64, now: Timestamp) -> Option<KeyRecord> {
        let candidates = CandidateLines { first: line, second: self.other_line(line, fingerprint), fingerprint };
        let lines = LockedPair::lock(self, candidates);
        let found = self.find_slot(&lines, candidates)?;
        self.record_in_slot(found.line, found.slot, now)
    }

    /// Returns the record of the key in a slot. When its state is in the overflow table, the caller holds the line.
    fn record_in_slot(&self, line: usize, slot: Slot, now: Timestamp) -> Option<KeyRecord> {
        let fingerprint = slot.fingerprint;
        if fingerprint == 0 || self.is_new(slot, now) {
            return None;
        }
        if slot.tag == IN_OVERFLOW {
            let copy = |record: &mut KeyRecord| (record.quota, record.state.clone());
            let (quota, state) = self.overflow.with_record(slot.overflow_place(), copy);
            return Some(KeyRecord { fingerprint, line, quota, state });
        }
        let quota = *self.registry.quota(slot.tag);
        Some(KeyRecord { fingerprint, line, quota, state: slot.decode(&quota) })
    }
}

/// Locks a mutex whose data stay valid when a thread panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
