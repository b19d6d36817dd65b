//! The named limits of a limiter, read by every decision and replaced as a whole.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use foldhash::fast::FixedState;
use tidegate_core::{Key, Quota, Scope};

use super::call::CallOptions;
use super::{BuildError, DenyList, Error, Limit, Limiter, UnknownLimit};
use crate::telemetry::DecisionCounters;

/// The maximum number of known names in an [`UnknownLimit`].
const MAX_LISTED_NAMES: usize = 50;

/// The number of turns that the readers of replaced limits get to finish. Nearly all read for less than a microsecond.
const READER_TURNS: usize = 1_000;

/// A limit with everything that is computed once from its settings.
#[derive(Debug)]
pub(super) struct NamedLimit {
    pub(super) scope: Scope,
    pub(super) limit: Limit,
    /// [`Quota::window`] of the limit's quota.
    pub(super) window: Option<Duration>,
    /// The quotas of its shards, or empty if it has one.
    pub(super) shards: Box<[Quota]>,
    /// The limit's own entries, original and normalized, and the common ones normalized.
    deny: DenyList,
    /// The entries of all limits.
    common_deny: Arc<DenyList>,
    /// Whether the limit has no deny list and no shards and does not normalize keys, as most limits.
    pub(super) is_plain: bool,
    pub(super) counters: DecisionCounters,
}

impl NamedLimit {
    fn new(limits: &Limits, name: &str, limit: Limit) -> Result<Self, BuildError> {
        let shards = match limit.shards {
            1 => Vec::new(),
            shards => limit.quota.split(shards).map_err(|error| BuildError::Quota { name: name.to_owned(), error })?,
        };
        let (mut deny, common_deny) = (limit.deny.clone(), Arc::clone(&limits.deny));
        if let Some(normalize) = limit.normalize {
            deny.add_normalized(&limit.deny, normalize);
            deny.add_normalized(&common_deny, normalize);
        }
        let (scope, window) = (Scope::new(&limits.prefix, name), limit.quota.window());
        let is_plain = deny.is_empty() && common_deny.is_empty() && shards.is_empty() && limit.normalize.is_none();
        let counters = DecisionCounters::default();
        Ok(NamedLimit { scope, limit, window, shards: shards.into(), deny, common_deny, is_plain, counters })
    }

    pub(super) fn name(&self) -> &str {
        self.scope.limit()
    }

    /// Returns the key as the limit normalizes it.
    #[inline]
    pub(super) fn normalized<'k>(&self, key: &'k Key<'_>) -> Key<'k> {
        self.limit.normalize.map_or_else(|| key.borrow(), |normalize| normalize.apply(key))
    }

    /// Returns whether a deny list has the key, the normalized key, the address or the full key of a call.
    pub(super) fn denies(&self, key: &Key<'_>, normalized: &Key<'_>, options: &CallOptions<'_>) -> bool {
        let is_normalized = self.limit.normalize.is_some();
        [&self.deny, &*self.common_deny].into_iter().any(|list| {
            list.contains(key)
                || (is_normalized && list.contains(normalized))
                || options.address.is_some_and(|address| list.contains_address(*address))
                || options.whole_key.is_some_and(|whole| {
                    list.contains(whole) || (is_normalized && list.contains(&self.normalized(whole)))
                })
        })
    }

    /// Returns the shard of a common budget for a key, always the same one.
    pub(super) fn shard_of(&self, key: &Key<'_>) -> usize {
        (key.stable_hash(self.scope.stable_hash()) % self.shards.len() as u64) as usize
    }
}

/// The limits by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    prefix: String,
    deny: Arc<DenyList>,
    // Names are the operator's, so the hash needs no secret.
    by_name: HashMap<Box<str>, Arc<NamedLimit>, FixedState>,
}

impl Limits {
    /// Creates an empty set of limits with their common prefix and deny list.
    pub(super) fn new(prefix: String, deny: DenyList) -> Self {
        Limits { prefix, deny: Arc::new(deny), by_name: HashMap::default() }
    }

    pub(super) fn add(&mut self, name: String, limit: Limit) -> Result<(), BuildError> {
        if self.by_name.contains_key(&*name) {
            return Err(BuildError::DuplicateLimit(name));
        }
        self.put(NamedLimit::new(self, &name, limit)?);
        Ok(())
    }

    pub(super) fn deny(&mut self, name: &str, list: DenyList) -> Result<(), BuildError> {
        let Some(named) = self.by_name.get(name) else {
            return Err(BuildError::UnknownLimit { name: name.to_owned(), what: "deny keys of" });
        };
        let mut limit = named.limit.clone();
        limit.deny.merge(list);
        self.put(NamedLimit::new(self, name, limit)?);
        Ok(())
    }

    /// Returns these limits with one of them replaced by the result of `change`.
    pub(super) fn with(&self, name: &str, change: impl FnOnce(&Limit) -> Result<Limit, Error>) -> Result<Self, Error> {
        let limit = change(&self.get(name)?.limit)?;
        let named = NamedLimit::new(self, name, limit).map_err(|error| match error {
            BuildError::Quota { error, .. } => Error::from(error),
            error => unreachable!("a limit that exists cannot be {error}"),
        })?;
        let mut limits = self.clone();
        limits.put(named);
        Ok(limits)
    }

    #[inline]
    pub(super) fn get(&self, name: &str) -> Result<&Arc<NamedLimit>, Error> {
        self.by_name.get(name).ok_or_else(|| self.unknown(name).into())
    }

    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.by_name.keys().map(|name| name.to_string()).collect();
        names.sort();
        names
    }

    fn put(&mut self, named: NamedLimit) {
        self.by_name.insert(named.name().into(), Arc::new(named));
    }

    #[cold]
    fn unknown(&self, name: &str) -> UnknownLimit {
        // Only some names are copied, so that wrong names from a client stay cheap with thousands of limits.
        let mut known: Vec<_> = self.by_name.keys().take(MAX_LISTED_NAMES).map(|name| name.to_string()).collect();
        known.sort();
        let more = self.by_name.len() - known.len();
        UnknownLimit { name: name.to_owned(), known, more }
    }
}

/// The current limits of a limiter. Reading them writes no shared memory until the first replacement. An `ArcSwap`
/// costs two locked instructions for each read; see record 0032.
pub(super) struct CurrentLimits {
    /// The limits that the limiter was built with.
    built: Limits,
    is_replaced: AtomicBool,
    latest: ArcSwap<Limits>,
}

/// A view of the limits for one decision.
pub(super) enum LimitsRef<'a> {
    Built(&'a Limits),
    Latest(Guard<Arc<Limits>>),
}

impl CurrentLimits {
    pub(super) fn new(limits: Limits) -> Self {
        let latest = ArcSwap::from_pointee(limits.clone());
        CurrentLimits { built: limits, is_replaced: AtomicBool::new(false), latest }
    }

    #[inline]
    pub(super) fn load(&self) -> LimitsRef<'_> {
        match self.is_replaced.load(Ordering::Acquire) {
            false => LimitsRef::Built(&self.built),
            true => LimitsRef::Latest(self.latest.load()),
        }
    }

    /// Returns the limits for work that waits.
    pub(super) fn load_full(&self) -> Arc<Limits> {
        self.latest.load_full()
    }

    /// Replaces the limits by the result of `change`.
    pub(super) fn update<E>(&self, mut change: impl FnMut(&Limits) -> Result<Limits, E>) -> Result<(), E> {
        loop {
            let before = self.latest.load_full();
            let found = self.latest.compare_and_swap(&before, Arc::new(change(&before)?));
            if Arc::ptr_eq(&found, &before) {
                // After the limits, so that a reader that sees the flag finds them.
                self.is_replaced.store(true, Ordering::Release);
                drop(found);
                // Otherwise the last reader would free thousands of limits in the middle of a decision.
                (0..READER_TURNS).take_while(|_| Arc::strong_count(&before) > 1).for_each(|_| std::thread::yield_now());
                return Ok(());
            }
        }
    }
}

impl Deref for LimitsRef<'_> {
    type Target = Limits;

    #[inline]
    fn deref(&self) -> &Limits {
        match self {
            LimitsRef::Built(limits) => limits,
            LimitsRef::Latest(limits) => limits,
        }
    }
}

/// The settings of a limit that other modules report or use.
#[derive(Clone, Copy)]
pub(crate) struct LimitSummary {
    pub(crate) capacity: u32,
    /// The capacity of its smallest shard.
    pub(crate) shard_capacity: u32,
    pub(crate) window: Option<Duration>,
    /// Whether several keys share one budget that is cut into shards.
    #[cfg(feature = "ws")]
    pub(crate) is_common: bool,
    pub(crate) shadow: bool,
}

impl Limiter {
    /// Returns an error for a name that no limit has.
    pub(crate) fn check_name(&self, name: &str) -> Result<(), UnknownLimit> {
        let limits = self.inner.limits.load();
        if limits.by_name.contains_key(name) { Ok(()) } else { Err(limits.unknown(name)) }
    }

    /// Returns the settings of the current limit.
    pub(crate) fn summary(&self, name: &str) -> Result<LimitSummary, Error> {
        let limits = self.inner.limits.load();
        let named = limits.get(name)?;
        let limit = &named.limit;
        let capacity = limit.quota.parts().capacity;
        Ok(LimitSummary {
            capacity,
            shard_capacity: capacity / limit.shards,
            window: named.window,
            #[cfg(feature = "ws")]
            is_common: limit.shards > 1,
            shadow: limit.shadow,
        })
    }

    /// Returns the quota of the limit's largest shard.
    pub(crate) fn largest_shard(&self, name: &str) -> Result<Quota, Error> {
        let limits = self.inner.limits.load();
        let named = limits.get(name)?;
        // The first shards have the remainder of the division.
        Ok(*named.shards.first().unwrap_or(&named.limit.quota))
    }

    /// Returns whether the deny lists of a limit have this key or address. Always false in shadow mode.
    pub(crate) fn denies(&self, name: &str, key: &Key<'_>, address: Option<&IpAddr>) -> bool {
        let limits = self.inner.limits.load();
        limits.get(name).is_ok_and(|named| {
            let options = CallOptions { address, ..CallOptions::default() };
            !named.limit.shadow && named.denies(key, &named.normalized(key), &options)
        })
    }

    /// Returns the key as a limit normalizes it, if the limit normalizes keys.
    pub(crate) fn normalized(&self, name: &str, key: &Key<'_>) -> Option<Key<'static>> {
        let limits = self.inner.limits.load();
        let normalize = limits.get(name).ok()?.limit.normalize?;
        Some(normalize.apply(key).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::seconds;

    use super::*;

    #[test]
    fn only_added_names_are_found() {
        let mut limits = Limits::default();
        assert!(limits.get("a").is_err());
        let quota = Quota::token_bucket(1, seconds(1)).unwrap();
        let names: Vec<_> = (0..300)
            .map(|n| match n % 3 {
                0 => format!("{n}"),
                1 => "x".repeat(n),
                _ => format!("ü{n}"),
            })
            .collect();
        for name in &names {
            limits.add(name.clone(), Limit::new(quota)).unwrap();
        }
        for name in &names {
            assert_eq!(limits.get(name).unwrap().name(), name);
            assert!(limits.get(&format!("{name}?")).is_err());
            assert_eq!(limits.add(name.clone(), Limit::new(quota)), Err(BuildError::DuplicateLimit(name.clone())));
        }
        assert_eq!(limits.names().len(), names.len());
    }
}
