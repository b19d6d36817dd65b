//! The atomics and locks of the table, which loom replaces when it explores their orders.

#[cfg(not(loom))]
pub(super) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(loom)]
pub(super) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

/// That many zeroed words. The pages are the system's until they are written to, so a large table costs nothing until
/// it fills.
#[cfg(not(loom))]
pub(super) fn zeroed_words(len: usize) -> Box<[AtomicU64]> {
    bytemuck::zeroed_slice_box(len)
}

#[cfg(loom)]
pub(super) fn zeroed_words(len: usize) -> Box<[AtomicU64]> {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}

/// Asks for the cache line of a word, and does not wait for it. A load would be waited for: reading the processor's counter
/// waits for every load before it.
#[cfg(not(loom))]
#[inline]
pub(super) fn prefetch(words: &[AtomicU64], index: usize) {
    prefetch_index::prefetch_index(words, index);
}

#[cfg(loom)]
pub(super) fn prefetch(_words: &[AtomicU64], _index: usize) {}

/// Waits a moment for another thread, which holds a line for a few stores at most.
#[cfg(not(loom))]
pub(super) fn pause(attempt: u32) {
    if attempt < 64 {
        std::hint::spin_loop();
    } else {
        // It was preempted in the middle: let it run.
        std::thread::yield_now();
    }
}

#[cfg(loom)]
pub(super) fn pause(_attempt: u32) {
    loom::thread::yield_now();
}

/// Leaves a line to the others for a while after having lost it to one of them, longer each time. Whoever has it in its
/// processor's cache meanwhile decides many times at full speed, where taking turns would move it for every decision.
#[cfg(not(loom))]
pub(super) fn back_off(attempt: u32) {
    for _ in 0..64 << attempt {
        std::hint::spin_loop();
    }
}

#[cfg(loom)]
pub(super) fn back_off(_attempt: u32) {
    loom::thread::yield_now();
}
