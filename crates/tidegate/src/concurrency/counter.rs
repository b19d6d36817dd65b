//! How many are in flight.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts what is in flight, and never lets it pass a ceiling.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU32);

impl Counter {
    /// Counts one more if that makes at most `ceiling`. Says how many there are then, or how many there were.
    #[inline]
    pub(super) fn enter(&self, ceiling: u32) -> Result<u32, u32> {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            if now >= ceiling {
                return Err(now);
            }
            // Acquire: what whoever left before has written is seen by whoever comes in its place.
            match self.0.compare_exchange_weak(now, now + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(now + 1),
                Err(other) => now = other,
            }
        }
    }

    /// Counts one less.
    #[inline]
    pub(super) fn leave(&self) {
        let before = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "more left than entered");
    }

    /// How many there are.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
