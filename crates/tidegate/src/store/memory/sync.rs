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

/// Returns that many zeroed words. The system allocates a page at its first write, so a large table costs nothing until
/// it fills.
#[cfg(not(loom))]
pub(super) fn zeroed_words(len: usize) -> Box<[AtomicU64]> {
    bytemuck::zeroed_slice_box(len)
}

#[cfg(loom)]
pub(super) fn zeroed_words(len: usize) -> Box<[AtomicU64]> {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}

/// Prefetches the cache line of a word without waiting. A load would block: a read of the processor's counter waits for
/// every earlier load.
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
        // The other thread was preempted in the middle: let it run.
        std::thread::yield_now();
    }
}

#[cfg(loom)]
pub(super) fn pause(_attempt: u32) {
    loom::thread::yield_now();
}

/// Backs off from a line after another thread won it, longer each time. The winner has the line in its cache, and makes
/// many decisions at full speed meanwhile. If threads took turns, every decision would move the line.
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
