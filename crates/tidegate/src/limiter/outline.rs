//! What others need to know of a limit to speak about it.

use tidegate_core::{OnStoreError, Quota};

use super::limits::Limits;
use super::{Error, Limiter, ShardBy};

/// What others need to know of a limit to speak about it.
#[derive(Clone, Copy)]
pub(crate) struct Outline {
    pub(crate) quota: Quota,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) is_spread: bool,
    pub(crate) shadow: bool,
}

impl Outline {
    fn of(limits: &Limits, name: &str) -> Result<Self, Error> {
        let limit = &limits.get(name)?.limit;
        let is_spread = limit.shards > 1 && limit.shard_by == ShardBy::Spread;
        Ok(Outline { quota: limit.quota, on_store_error: limit.on_store_error, is_spread, shadow: limit.shadow })
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
