//! The table: a fixed number of lines of slots, which is never resized and never pauses.
//!
//! A key can be in one of two lines. A new key goes where there is room. When both lines are full, keys in them move to
//! their own other line, three steps deep at most. When that does not help, the key closest to new is evicted. Each of
//! these touches a bounded number of lines, in a table of any size.
//!
//! [`Table::apply`] has the one fast path of Tidegate: `step_in_place`, for a token bucket that is in its slot and stays
//! there. docs/book/src/explanation/performance.md has the measurement that pays for it.

use tidegate_core::{Decision, Op, Quota, State, Timestamp, step};

use super::line::{Line, SLOTS, WORDS};
use super::locks::{LockedLines, LockedPair, SlotRef, StepTarget};
use super::overflow::OverflowTable;
use super::quota_registry::QuotaRegistry;
use super::scan::ScanProgress;
use super::slot::{FINGERPRINT_BITS, IN_OVERFLOW, Slot};
use super::sync::{AtomicU64, AtomicUsize, Ordering, back_off, prefetch, zeroed_words};

/// The load below which no busy key is evicted, in percent of the slots. Two candidate lines and three moves always
/// fill the table beyond that.
const MAX_LOAD_PERCENT: usize = 75;
/// The number of attempts at a step without a lock.
const MAX_ATTEMPTS: u32 = 3;
/// The minimum number of lines: with fewer, too many keys share both of their lines.
const MIN_LINES: usize = 64;

#[cfg(test)]
thread_local! {
    /// The number of lines that this thread has used, so that a test can assert that no call scans the table.
    pub(super) static LINES_TOUCHED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The table of a memory store.
pub(super) struct Table {
    words: Box<[AtomicU64]>,
    /// Words before the first that begins a cache line.
    offset: usize,
    pub(super) lines: usize,
    pub(super) registry: QuotaRegistry,
    pub(super) max_bytes: usize,
    // Fields above are only read. Those below are written by new keys, in another cache line.
    _padding: CacheLine,
    pub(super) overflow: OverflowTable,
    pub(super) keys: AtomicUsize,
    pub(super) forgotten_busy: AtomicU64,
    /// The next line to sweep.
    sweep_cursor: AtomicUsize,
    pub(super) scan: ScanProgress,
}

/// Padding to the next cache line.
#[repr(align(64))]
struct CacheLine;

/// The two lines where a key can be, and its fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CandidateLines {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) fingerprint: u64,
}

/// A line and the version it had when it was first read.
type VersionedLine<'a> = (Line<'a>, u64);

/// The result of a step without a lock.
enum LockFreeAttempt {
    Decided(Decision),
    /// Another thread wrote meanwhile.
    Conflict,
    /// The step needs a lock: a new key, or a state that does not fit in a slot.
    NeedsLock,
}

impl Table {
    /// Creates a table with room for that many keys.
    pub(super) fn for_keys(max_keys: usize, max_bytes: usize) -> Self {
        let lines = (max_keys as u128 * 100).div_ceil((MAX_LOAD_PERCENT * SLOTS) as u128);
        Self::new(usize::try_from(lines).unwrap_or(usize::MAX).max(MIN_LINES), max_bytes)
    }

    /// Creates a table of that many lines, at least 2.
    pub(super) fn new(lines: usize, max_bytes: usize) -> Self {
        // The allocator aligns to less than a cache line, so there is room to begin at the next one.
        let words = zeroed_words(lines.saturating_add(1).saturating_mul(WORDS));
        let offset = words.as_ptr().align_offset(WORDS * size_of::<u64>());
        Table {
            offset: if offset < WORDS { offset } else { 0 },
            words,
            lines,
            registry: QuotaRegistry::new(),
            max_bytes,
            // Fields above are only read. Those below are written by new keys, in another cache line.
            _padding: CacheLine,
            overflow: OverflowTable::new(),
            keys: AtomicUsize::new(0),
            forgotten_busy: AtomicU64::new(0),
            sweep_cursor: AtomicUsize::new(0),
            scan: ScanProgress::new(),
        }
    }

    /// Returns the number of keys that fit in a table of that many lines: the largest number that gives this size.
    pub(super) fn keys_for(lines: usize) -> usize {
        usize::try_from(lines as u128 * (MAX_LOAD_PERCENT * SLOTS) as u128 / 100).unwrap_or(usize::MAX)
    }

    /// Returns the candidate lines of the key with this hash.
    pub(super) fn candidates(&self, hash: u64) -> CandidateLines {
        let (first, fingerprint) = self.first_line(hash);
        CandidateLines { first, second: self.other_line(first, fingerprint), fingerprint }
    }

    /// Returns the first candidate line of the key with this hash, and its fingerprint.
    #[inline]
    fn first_line(&self, hash: u64) -> (usize, u64) {
        let fingerprint = (hash >> (64 - FINGERPRINT_BITS)).max(1);
        // The bits that are not in the fingerprint come first.
        (scale_to(hash.rotate_left(FINGERPRINT_BITS), self.lines), fingerprint)
    }

    /// Returns the other candidate line of a key that can be in `line`.
    #[inline]
    pub(super) fn other_line(&self, line: usize, fingerprint: u64) -> usize {
        // The two lines of a fingerprint add up to the same sum, so each leads to the other.
        let sum = scale_to(fingerprint.wrapping_mul(0x9e37_79b9_7f4a_7c15), self.lines);
        if sum >= line { sum - line } else { sum + self.lines - line }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words) + self.overflow.bytes()
    }

    /// Prefetches both candidate lines of the key with this hash.
    pub(super) fn prefetch(&self, hash: u64) {
        let (index, fingerprint) = self.first_line(hash);
        self.prefetch_lines(index, fingerprint);
    }

    /// Prefetches both lines, because one key in six is in the second. A decision about it would wait twice otherwise.
    #[inline]
    fn prefetch_lines(&self, index: usize, fingerprint: u64) {
        for line in [index, self.other_line(index, fingerprint)] {
            prefetch(&self.words, self.offset + line * WORDS);
        }
    }

    /// Applies one operation. The clock is read once, after the lines were prefetched, so that the two waits overlap.
    #[inline(always)] // record 0032 has the measurement
    pub(super) fn apply(&self, hash: u64, quota: &Quota, op: Op, now: impl FnOnce() -> Timestamp) -> Decision {
        let (index, fingerprint) = self.first_line(hash);
        self.prefetch_lines(index, fingerprint);
        let tag = self.registry.tag(quota);
        let now = now();
        if let Some(tag) = tag
            && let Some((line, slot)) = self.peek_slot(index, fingerprint)
            && let Some(decision) = step_in_place(line, slot, tag, quota, op, now)
        {
            return decision;
        }
        self.apply_with_retries(hash, tag, quota, op, now)
    }

    /// Tries a few times without a lock, and then takes one.
    #[inline(never)]
    fn apply_with_retries(&self, hash: u64, tag: Option<u16>, quota: &Quota, op: Op, now: Timestamp) -> Decision {
        let candidates = self.candidates(hash);
        if let Some(tag) = tag {
            for attempt in 0..MAX_ATTEMPTS {
                match self.try_step(candidates, tag, quota, op, now) {
                    LockFreeAttempt::Decided(decision) => return decision,
                    LockFreeAttempt::Conflict => back_off(attempt),
                    LockFreeAttempt::NeedsLock => break,
                }
            }
        }
        self.apply_locked(StepTarget { candidates, quota, now }, op)
    }

    /// Returns the slot with this fingerprint and its line: that of this number, or the other candidate.
    #[inline(always)] // record 0032 has the measurement
    fn peek_slot(&self, index: usize, fingerprint: u64) -> Option<(VersionedLine<'_>, usize)> {
        let first = self.peek(index);
        if let Some(slot) = first.0.find(fingerprint) {
            return Some((first, slot));
        }
        let second = self.peek(self.other_line(index, fingerprint));
        Some((second, second.0.find(fingerprint)?))
    }

    /// Removes the keys in the next few lines that are as good as new.
    pub(super) fn sweep(&self, lines: usize, now: Timestamp) {
        for _ in 0..lines {
            let index = self.sweep_cursor.fetch_add(1, Ordering::Relaxed) % self.lines;
            let is_idle = |slot: Slot| slot.fingerprint != 0 && self.is_new(slot, now);
            if self.line(index).slots().into_iter().any(is_idle) {
                let lines = LockedPair::lock(self, CandidateLines { first: index, second: index, fingerprint: 0 });
                for slot in 0..SLOTS {
                    let found = SlotRef { line: index, index: slot, slot: lines.get(index).line().slot(slot) };
                    if is_idle(found.slot) {
                        self.remove_slot(&lines, found);
                    }
                }
            }
        }
    }

    /// Removes every key that is as good as new.
    pub(super) fn sweep_all(&self, now: Timestamp) {
        self.sweep(self.lines, now);
    }

    #[inline]
    pub(super) fn line(&self, index: usize) -> Line<'_> {
        #[cfg(test)]
        LINES_TOUCHED.set(LINES_TOUCHED.get() + 1);
        let start = self.offset + index * WORDS;
        let words = &self.words[start..start + WORDS];
        Line::new(words.try_into().expect("as many words as that"))
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn word(&self, index: usize) -> u64 {
        self.words[self.offset + index].load(Ordering::Acquire)
    }

    /// Returns a line and its version, which is odd while a thread writes.
    #[inline]
    fn peek(&self, index: usize) -> VersionedLine<'_> {
        let line = self.line(index);
        (line, line.current_version())
    }

    /// Returns a line and its version, once no thread writes.
    fn peek_stable(&self, index: usize) -> VersionedLine<'_> {
        let line = self.line(index);
        (line, line.stable_version())
    }

    /// Tries a step that takes a lock only for the write itself.
    fn try_step(&self, candidates: CandidateLines, tag: u16, quota: &Quota, op: Op, now: Timestamp) -> LockFreeAttempt {
        let fingerprint = candidates.fingerprint;
        let found = |(line, _): VersionedLine<'_>| line.find(fingerprint);
        let first = self.peek_stable(candidates.first);
        let ((line, version), index) = match found(first) {
            Some(index) => (first, index),
            None => {
                let second = self.peek_stable(candidates.second);
                match found(second) {
                    Some(index) => (second, index),
                    None => return try_step_new_key([first, second], quota, op, now),
                }
            }
        };
        let slot = line.slot(index);
        if !line.has_version(version) {
            return LockFreeAttempt::Conflict;
        }
        if slot.tag == IN_OVERFLOW {
            return LockFreeAttempt::NeedsLock;
        }
        let written_under = self.registry.quota(slot.tag);
        let mut state = slot.decode(written_under).rebase(written_under, quota, now);
        let outcome = step(quota, &mut state, op, now);
        if outcome.changed {
            let Some(new) = Slot::encode(fingerprint, tag, &state) else { return LockFreeAttempt::NeedsLock };
            match line.try_lock(version) {
                Some(guard) => guard.write(index, new),
                None => return LockFreeAttempt::Conflict,
            }
        }
        LockFreeAttempt::Decided(outcome.decision)
    }
}

/// Tries a step of a key that is in neither of its lines.
fn try_step_new_key(lines: [VersionedLine<'_>; 2], quota: &Quota, op: Op, now: Timestamp) -> LockFreeAttempt {
    let outcome = step(quota, &mut State::New, op, now);
    match outcome.changed {
        true => LockFreeAttempt::NeedsLock,
        // Both at once: the key may have moved from one line to the other in between.
        false if lines.iter().any(|(line, version)| !line.has_version(*version)) => LockFreeAttempt::Conflict,
        false => LockFreeAttempt::Decided(outcome.decision),
    }
}

/// The usual case: a known key whose token bucket is in its slot and stays there. Returns `None` in all other cases,
/// and when another thread writes at the same time. Nothing was done then.
#[inline(always)] // record 0032 has the measurement
fn step_in_place(
    (line, version): VersionedLine<'_>,
    index: usize,
    tag: u16,
    quota: &Quota,
    op: Op,
    now: Timestamp,
) -> Option<Decision> {
    let slot = line.slot(index);
    if slot.tag != tag || version & 1 != 0 || !line.has_version(version) {
        return None;
    }
    let step = slot.bucket().step(quota, op, now)?;
    if let Some(bucket) = step.changed() {
        let new = Slot::from_bucket(slot.fingerprint, tag, bucket)?;
        line.try_lock(version)?.write(index, new);
    }
    // After the write: the processor computes it while the next decision waits for memory.
    Some(step.decision())
}

/// Returns a number below `range`, by the high bits of `bits`.
#[inline]
pub(super) fn scale_to(bits: u64, range: usize) -> usize {
    ((u128::from(bits) * range as u128) >> 64) as usize
}
