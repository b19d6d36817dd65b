//! What others need to know of a limit to speak about it.

use std::net::IpAddr;
use std::time::Duration;

use tidegate_core::{Key, OnStoreError};

use super::limits::Limits;
use super::terms::Terms;
use super::{Error, Limiter, ShardBy};

/// What others need to know of a limit to speak about it.
#[derive(Clone, Copy)]
pub(crate) struct Outline {
    pub(crate) capacity: u32,
    /// The most that can be had at once of its smallest shard.
    pub(crate) part_capacity: u32,
    pub(crate) window: Option<Duration>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) is_spread: bool,
    /// Whether it is one budget, cut into parts that several keys share.
    #[cfg(feature = "ws")]
    pub(crate) is_common: bool,
    pub(crate) shadow: bool,
}

impl Outline {
    fn of(limits: &Limits, name: &str) -> Result<Self, Error> {
        let named = limits.get(name)?;
        let limit = &named.limit;
        let capacity = limit.quota.parts().capacity;
        Ok(Outline {
            capacity,
            part_capacity: capacity / limit.shards,
            window: named.window,
            on_store_error: limit.on_store_error,
            is_spread: limit.shards > 1 && limit.shard_by == ShardBy::Spread,
            #[cfg(feature = "ws")]
            is_common: limit.shards > 1 && limit.shard_by == ShardBy::Key,
            shadow: limit.shadow,
        })
    }
}

impl Limiter {
    /// Whether a limit turns this key or address away by its deny list, whatever is asked. Not in shadow mode.
    pub(crate) fn denies(&self, name: &str, key: &Key<'_>, address: Option<&IpAddr>) -> bool {
        self.inner.limits.with(|limits| {
            limits.get(name).is_ok_and(|named| {
                // Nearly always: nobody is on it, and nothing has to be made alike.
                if !named.denies_anybody() {
                    return false;
                }
                let alike = named.limit.normalize.map_or_else(|| key.borrow(), |normalize| normalize.apply(key));
                !named.limit.shadow && named.denies(key, &alike, &Terms { address, ..Terms::default() })
            })
        })
    }

    /// The key as a limit counts it, where that makes keys alike.
    pub(crate) fn counted(&self, name: &str, key: &Key<'_>) -> Option<Key<'static>> {
        self.inner.limits.with(|limits| {
            let normalize = limits.get(name).ok()?.limit.normalize?;
            Some(normalize.apply(key).into_owned())
        })
    }

    /// Whether a limit lets who asks go on whose store cannot be asked.
    #[cfg(feature = "tokio")]
    pub(crate) fn admits_without_store(&self, name: &str) -> bool {
        self.outline(name).is_ok_and(|outline| outline.shadow || outline.on_store_error == OnStoreError::Open)
    }

    /// A limit as it is now.
    pub(crate) fn outline(&self, name: &str) -> Result<Outline, Error> {
        self.inner.limits.with(|limits| Outline::of(limits, name))
    }
}
