//! What others need to know of a limit to speak about it.

use std::time::Duration;

use tidegate_core::OnStoreError;

use super::limits::Limits;
use super::{Error, Limiter, ShardBy};

/// What others need to know of a limit to speak about it.
#[derive(Clone, Copy)]
pub(crate) struct Outline {
    pub(crate) capacity: u32,
    pub(crate) window: Option<Duration>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) is_spread: bool,
    pub(crate) shadow: bool,
}

impl Outline {
    fn of(limits: &Limits, name: &str) -> Result<Self, Error> {
        let named = limits.get(name)?;
        let limit = &named.limit;
        Ok(Outline {
            capacity: limit.quota.parts().capacity,
            window: named.window,
            on_store_error: limit.on_store_error,
            is_spread: limit.shards > 1 && limit.shard_by == ShardBy::Spread,
            shadow: limit.shadow,
        })
    }
}

impl Limiter {
    /// A limit as it is now.
    pub(crate) fn outline(&self, name: &str) -> Result<Outline, Error> {
        match self.inner.limits.first() {
            Some(limits) => Outline::of(limits, name),
            None => self.inner.limits.with(|limits| Outline::of(limits, name)),
        }
    }
}
