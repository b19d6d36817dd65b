//! Random numbers: reproducible from a seed, or unpredictable.

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A SplitMix64 generator that threads can share: the same seed gives the same numbers in the same order.
pub(crate) struct Random(AtomicU64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(AtomicU64::new(seed))
    }

    /// Returns the next 64 bits.
    pub(crate) fn next(&self) -> u64 {
        let mut bits = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

/// Returns secret numbers, to key a hash with.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub(crate) fn draw_secrets() -> [u64; 4] {
    let random = RandomState::new();
    [0_u64, 1, 2, 3].map(|number| random.hash_one(number))
}

/// Returns secret numbers, where the standard library's keys are the same in every program.
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
pub(crate) fn draw_secrets() -> [u64; 4] {
    [(); 4].map(|()| getrandom::u64().expect("a JavaScript runtime has random numbers"))
}

/// A generator of numbers that are unique across processes, and cannot be guessed from earlier ones.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
#[derive(Default)]
pub(crate) struct SecureRandom {
    /// Keyed with its own secret.
    hash: RandomState,
    counter: AtomicU64,
}

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
impl SecureRandom {
    pub(crate) fn next(&self) -> u64 {
        self.hash.hash_one(self.counter.fetch_add(1, Ordering::Relaxed))
    }
}

/// A generator of numbers that are unique across processes, and cannot be guessed from earlier ones.
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
#[derive(Default)]
pub(crate) struct SecureRandom;

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
impl SecureRandom {
    pub(crate) fn next(&self) -> u64 {
        draw_secrets()[0]
    }
}
