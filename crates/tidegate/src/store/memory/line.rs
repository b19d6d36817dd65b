//! A line of the table: one cache line with a version and three slots.
//!
//! A line is a sequence lock whose data are atomics, so all code here is safe. An even version means that no thread
//! writes. A writer makes the version odd with one compare-and-swap, writes, and makes it even again. A reader loads
//! the version, reads, and loads the version again. An equal version means that the read was consistent. So a check,
//! and with it a denial, writes nothing and takes no lock. A writer that has read before takes the lock at exactly the
//! version it saw, which proves that the line has not changed since.
//!
//! Why the orderings are enough: a writer stores with release, and a reader loads with acquire. A reader that sees any
//! store of a writer also sees the earlier odd version, so its second load of the version detects the write. A reader
//! that sees an even version sees all stores of the writer that set it.

use std::hint::select_unpredictable;

use super::slot::{C_BITS, Slot};
use super::sync::{AtomicU64, Ordering, pause};

/// Slots in a line.
pub(super) const SLOTS: usize = 3;
/// Words in a line: the version, two for each slot, and one they share.
pub(super) const WORDS: usize = 8;
/// The index of the word that the slots share.
const SHARED_WORD: usize = WORDS - 1;

/// A line of the table, for reading.
#[derive(Clone, Copy)]
pub(super) struct Line<'a>(&'a [AtomicU64; WORDS]);

impl<'a> Line<'a> {
    pub(super) fn new(words: &'a [AtomicU64; WORDS]) -> Self {
        Line(words)
    }

    /// Returns the version, odd while a thread writes.
    #[inline]
    pub(super) fn current_version(self) -> u64 {
        self.0[0].load(Ordering::Acquire)
    }

    /// Returns the version, once no thread writes.
    pub(super) fn stable_version(self) -> u64 {
        let mut attempt = 0;
        loop {
            let version = self.current_version();
            if version & 1 == 0 {
                return version;
            }
            pause(attempt);
            attempt += 1;
        }
    }

    /// Returns whether the line still has this version: then all reads since [`Line::stable_version`] returned it are one
    /// consistent read.
    #[inline]
    pub(super) fn has_version(self, version: u64) -> bool {
        self.0[0].load(Ordering::Relaxed) == version
    }

    /// Returns the slot with this fingerprint. It reads all slots, because a processor cannot predict the right one. A
    /// mispredicted branch costs more than two slots.
    #[inline]
    pub(super) fn find(self, fingerprint: u64) -> Option<usize> {
        let mut found = SLOTS;
        for slot in (0..SLOTS).rev() {
            let matches = Slot::unpack_fingerprint(self.load(1 + 2 * slot)) == fingerprint;
            found = select_unpredictable(matches, slot, found);
        }
        (found < SLOTS).then_some(found)
    }

    /// Returns the content of a slot.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn slot(self, index: usize) -> Slot {
        let shared = self.load(SHARED_WORD) >> (C_BITS * index as u32) & ((1 << C_BITS) - 1);
        Slot::unpack(self.load(1 + 2 * index), self.load(2 + 2 * index), shared)
    }

    /// Returns every slot, in one consistent read.
    pub(super) fn slots(self) -> [Slot; SLOTS] {
        loop {
            let version = self.stable_version();
            let slots = std::array::from_fn(|index| self.slot(index));
            if self.has_version(version) {
                return slots;
            }
        }
    }

    /// Locks the line for writing if it still has `version`.
    #[inline]
    pub(super) fn try_lock(self, version: u64) -> Option<LineGuard<'a>> {
        match self.0[0].compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed) {
            // Created only here. Dropping it unlocks the line.
            Ok(_) => Some(LineGuard { line: self, version }),
            Err(_) => None,
        }
    }

    /// Locks the line for writing.
    pub(super) fn lock(self) -> LineGuard<'a> {
        let mut attempt = 0;
        loop {
            if let Some(guard) = self.try_lock(self.stable_version()) {
                return guard;
            }
            pause(attempt);
            attempt += 1;
        }
    }

    #[inline]
    fn load(self, word: usize) -> u64 {
        self.0[word].load(Ordering::Acquire)
    }
}

/// A line that is locked for writing until this is dropped.
pub(super) struct LineGuard<'a> {
    line: Line<'a>,
    version: u64,
}

impl<'a> LineGuard<'a> {
    pub(super) fn line(&self) -> Line<'a> {
        self.line
    }

    /// Writes a slot.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn write(&self, index: usize, slot: Slot) {
        let (a, b, c) = slot.pack();
        let shift = C_BITS * index as u32;
        let shared = self.line.load(SHARED_WORD);
        let new = shared & !(((1 << C_BITS) - 1) << shift) | c << shift;
        self.store(1 + 2 * index, a);
        self.store(2 + 2 * index, b);
        if new != shared {
            self.store(SHARED_WORD, new);
        }
    }

    /// Empties a slot.
    pub(super) fn clear(&self, index: usize) {
        self.write(index, Slot::default());
    }

    #[inline]
    fn store(&self, word: usize, value: u64) {
        self.line.0[word].store(value, Ordering::Release);
    }
}

impl Drop for LineGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.line.0[0].store(self.version + 2, Ordering::Release);
    }
}
