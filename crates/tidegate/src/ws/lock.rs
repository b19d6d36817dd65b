//! Locks that go on after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after somebody panicked: nothing that is kept under these locks is ever half-way.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
