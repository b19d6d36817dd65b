//! The named limits of a limiter, ready to be asked.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use tidegate_core::{Key, Quota, Scope};

use super::{BuildError, DenyList, Error, Limit, UnknownLimit};

/// One named limit and what is worked out from it once.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) scope: Scope,
    pub(super) limit: Limit,
    /// The quotas of its shards; empty when there is one.
    pub(super) parts: Box<[Quota]>,
    plain: bool,
}

impl Named {
    fn new(prefix: &str, name: &str, limit: Limit) -> Result<Self, BuildError> {
        let parts = match limit.shards {
            1 => Vec::new(),
            shards => limit.quota.split(shards).map_err(|error| BuildError::Quota { name: name.to_owned(), error })?,
        };
        let plain = limit.shards == 1 && !limit.shadow && limit.normalize.is_none() && limit.deny.is_empty();
        Ok(Named { scope: Scope::new(prefix, name), limit, parts: parts.into(), plain })
    }

    pub(super) fn name(&self) -> &str {
        self.scope.limit()
    }

    /// Whether its keys go to the store as they are, and its decisions come back as they are.
    pub(super) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Which part of one budget for everyone this key meets: always the same one.
    pub(super) fn part_of(&self, key: &Key<'_>) -> usize {
        let whole = Scope::new(self.scope.as_str(), key.as_str());
        (whole.stable_hash() % self.parts.len() as u64) as usize
    }
}

/// The limits by name. Read by every decision and written as a whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    named: HashMap<Box<str>, Arc<Named>, BuildHasherDefault<NameHasher>>,
}

impl Limits {
    pub(super) fn add(&mut self, prefix: &str, name: String, limit: Limit) -> Result<(), BuildError> {
        let named = Named::new(prefix, &name, limit)?;
        match self.named.insert(name.into(), Arc::new(named)) {
            None => Ok(()),
            Some(named) => Err(BuildError::DuplicateLimit(named.name().to_owned())),
        }
    }

    pub(super) fn deny(&mut self, prefix: &str, name: &str, list: DenyList) -> Result<(), BuildError> {
        let Some(named) = self.named.get_mut(name) else {
            return Err(BuildError::UnknownLimit { name: name.to_owned(), what: "deny keys of" });
        };
        let mut limit = named.limit.clone();
        limit.deny.merge(list);
        *named = Arc::new(Named::new(prefix, name, limit)?);
        Ok(())
    }

    /// These limits with one of them replaced.
    pub(super) fn with(&self, prefix: &str, name: &str, limit: Limit) -> Result<Self, Error> {
        self.get(name)?;
        let named = Named::new(prefix, name, limit).map_err(|error| match error {
            BuildError::Quota { error, .. } => Error::from(error),
            error => unreachable!("a limit that is there cannot be {error}"),
        })?;
        let mut limits = self.clone();
        limits.named.insert(name.into(), Arc::new(named));
        Ok(limits)
    }

    #[inline]
    pub(super) fn get(&self, name: &str) -> Result<&Arc<Named>, Error> {
        self.named.get(name).ok_or_else(|| self.unknown(name))
    }

    #[cold]
    fn unknown(&self, name: &str) -> Error {
        Error::UnknownLimit(Box::new(UnknownLimit { name: name.to_owned(), known: self.names() }))
    }

    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.named.keys().map(|name| name.to_string()).collect();
        names.sort();
        names
    }
}

/// A plain, quick hash. The names in the map are the operator's, so nobody can fill it with colliding ones.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let mixed = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 = mixed ^ mixed >> 32;
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
