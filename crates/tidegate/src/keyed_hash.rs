//! The hash that tables find a limit's keys by.

use std::hash::{BuildHasher, Hasher};

use ahash::RandomState;
use tidegate_core::{Key, Scope};

/// A hash that is keyed with secrets, so that nobody outside can choose keys that meet in one place.
pub(crate) struct KeyedHash(RandomState);

impl KeyedHash {
    pub(crate) fn new([a, b, c, d]: [u64; 4]) -> Self {
        KeyedHash(RandomState::with_seeds(a, b, c, d))
    }

    /// The hash of a limit's key. What the memory store has saved is found by it, so it has to stay as it is.
    #[inline(always)]
    pub(crate) fn of(&self, scope: &Scope, key: &Key<'_>) -> u64 {
        let (shape, bytes) = key.as_raw();
        let mut hasher = self.0.build_hasher();
        hasher.write_u64(scope.stable_hash() ^ u64::from(shape));
        hasher.write(bytes);
        hasher.finish()
    }
}
