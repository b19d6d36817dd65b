//! A keyed hash of scope and key, for tables of keys.

use std::hash::{BuildHasher, Hasher};

use ahash::RandomState;
use tidegate_core::{Key, Scope};

/// A hash that is keyed with secrets, so that clients cannot choose keys that collide.
pub(crate) struct KeyedHash(RandomState);

impl KeyedHash {
    pub(crate) fn new([a, b, c, d]: [u64; 4]) -> Self {
        KeyedHash(RandomState::with_seeds(a, b, c, d))
    }

    /// Returns the hash of a limit's key. Snapshots of the memory store depend on it, so it must not change.
    #[inline(always)] // record 0032 has the measurement
    pub(crate) fn hash(&self, scope: &Scope, key: &Key<'_>) -> u64 {
        let (encoding, bytes) = key.as_raw();
        let mut hasher = self.0.build_hasher();
        hasher.write_u64(scope.stable_hash() ^ u64::from(encoding));
        hasher.write(bytes);
        hasher.finish()
    }
}
