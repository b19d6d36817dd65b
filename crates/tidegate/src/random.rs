//! Chance: that can be repeated, and that nobody can guess.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A generator (SplitMix64) that threads can share: the same seed gives the same numbers in the same order.
pub(crate) struct Random(AtomicU64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(AtomicU64::new(seed))
    }

    /// The next 64 bits.
    pub(crate) fn next(&self) -> u64 {
        let mut bits = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

/// Numbers that nobody can guess, to key a hash with.
pub(crate) fn secrets() -> [u64; 4] {
    let random = RandomState::new();
    [0_u64, 1, 2, 3].map(|number| random.hash_one(number))
}
