//! One cache line: a version and three slots.
//!
//! A line is a sequence lock whose data are atomics, so everything here is safe code. An even version means that
//! nobody writes; a writer makes it odd with one compare-and-swap, writes, and makes it even again. A reader takes
//! the version, reads, and takes the version again: when it is the same, what was read was there all at once. So a
//! look, and with it a denial, writes nothing and takes no lock; and a writer that has looked before can take the lock
//! at exactly the version it saw, which proves that nothing has changed since.
//!
//! Why the orderings are enough: a reader that sees any store of a writer (release, read with acquire) has everything
//! that came before it, the odd version included, so its second look at the version cannot miss it. A reader that
//! sees an even version (acquire) has all stores of the writer that put it there (release).

use std::hint::select_unpredictable;

use super::slot::{C_BITS, Slot};
use super::sync::{AtomicU64, Ordering, pause};

/// Slots in a line.
pub(super) const SLOTS: usize = 3;
/// Words in a line: the version, two for each slot, and one they share.
pub(super) const WORDS: usize = 8;
const SHARED: usize = WORDS - 1;

#[derive(Clone, Copy)]
pub(super) struct Line<'a>(&'a [AtomicU64; WORDS]);

impl<'a> Line<'a> {
    pub(super) fn new(words: &'a [AtomicU64; WORDS]) -> Self {
        Line(words)
    }

    /// The version, odd when somebody writes.
    #[inline]
    pub(super) fn version_now(self) -> u64 {
        self.0[0].load(Ordering::Acquire)
    }

    /// The version, once nobody writes.
    pub(super) fn version(self) -> u64 {
        let mut attempt = 0;
        loop {
            let version = self.version_now();
            if version & 1 == 0 {
                return version;
            }
            pause(attempt);
            attempt += 1;
        }
    }

    /// Whether everything read since [`Line::version`] gave `version` was there all at once.
    #[inline]
    pub(super) fn is_still(self, version: u64) -> bool {
        self.0[0].load(Ordering::Relaxed) == version
    }

    /// Which slot has this fingerprint. All are looked at, because a processor cannot foretell which it will be, and a branch that
    /// goes the other way costs more than two slots.
    #[inline]
    pub(super) fn find(self, fingerprint: u64) -> Option<usize> {
        let mut found = SLOTS;
        for slot in (0..SLOTS).rev() {
            let is_it = Slot::fingerprint_in(self.load(1 + 2 * slot)) == fingerprint;
            found = select_unpredictable(is_it, slot, found);
        }
        (found < SLOTS).then_some(found)
    }

    /// What a slot holds.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn slot(self, index: usize) -> Slot {
        let shared = self.load(SHARED) >> (C_BITS * index as u32) & ((1 << C_BITS) - 1);
        Slot::unpack(self.load(1 + 2 * index), self.load(2 + 2 * index), shared)
    }

    /// Every slot, as one read.
    pub(super) fn slots(self) -> [Slot; SLOTS] {
        loop {
            let version = self.version();
            let slots = std::array::from_fn(|index| self.slot(index));
            if self.is_still(version) {
                return slots;
            }
        }
    }

    /// Takes the line for writing if it is still at `version`.
    #[inline]
    pub(super) fn try_lock(self, version: u64) -> Option<LineGuard<'a>> {
        match self.0[0].compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed) {
            // Made here and nowhere else: dropping one unlocks the line.
            Ok(_) => Some(LineGuard { line: self, version }),
            Err(_) => None,
        }
    }

    /// Takes the line for writing.
    pub(super) fn lock(self) -> LineGuard<'a> {
        let mut attempt = 0;
        loop {
            if let Some(guard) = self.try_lock(self.version()) {
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

/// A line that this thread alone writes to, until this is dropped.
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
        let shared = self.line.load(SHARED);
        let new = shared & !(((1 << C_BITS) - 1) << shift) | c << shift;
        self.store(1 + 2 * index, a);
        self.store(2 + 2 * index, b);
        if new != shared {
            self.store(SHARED, new);
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
