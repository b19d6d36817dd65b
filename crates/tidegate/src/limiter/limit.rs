//! A quota with its settings.

use tidegate_core::{Algorithm, OnStoreError, Quota, QuotaError};

use super::{DenyList, Normalize};
use crate::net::NetworkError;

/// How the budget of a limit with several shards is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShardBy {
    /// One budget for everyone. A stable hash of the key picks the part, so one key always meets the same one. The
    /// hash is no secret: who may choose a key may choose a part.
    #[default]
    Key,
    /// Every key has its own budget and asks the fuller of two parts picked at random, so that a hot key can reach
    /// its whole rate. `retry_after` is only a hint, `remaining` is what the part that was asked has left, and
    /// `reserve` is refused, and so is a `concurrency` limit as a whole. `limit` and `refund` look before they ask, so
    /// they take two calls of the store, and may wait for it in both; when it turns out to be broken in the first, and
    /// the limit's policy admits, there is no second.
    Spread,
}

/// A quota with its settings: what a name stands for in a [`Limiter`](crate::Limiter).
///
/// ```
/// use tidegate::{Limit, Normalize, OnStoreError, Quota, minutes};
///
/// let login = Limit::new(Quota::fixed_window(5, minutes(1))?)
///     .on_store_error(OnStoreError::Closed)
///     .normalize(Normalize::Lowercase)
///     .deny(["mallory", "203.0.113.0/24"])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(C)] // what every decision looks at first
pub struct Limit {
    pub(super) on_store_error: OnStoreError,
    pub(super) quota: Quota,
    pub(super) deny: DenyList,
    pub(super) shards: u32,
    pub(super) shard_by: ShardBy,
    pub(super) shadow: bool,
    pub(super) normalize: Option<Normalize>,
}

impl Limit {
    /// A limit with the default settings.
    pub fn new(quota: Quota) -> Self {
        Limit {
            quota,
            on_store_error: OnStoreError::default(),
            deny: DenyList::default(),
            shards: 1,
            shard_by: ShardBy::default(),
            shadow: false,
            normalize: None,
        }
    }

    /// What to do when the store is broken, for stores that can be; the memory store cannot: admit, unless said otherwise. Every
    /// request carries it to whoever wraps the store: [`Resilience`](crate::resilience::Resilience) or
    /// [`Fallback`](crate::resilience::Fallback) act on it, and so does an [`Enforcer`](crate::enforce::Enforcer). The error of a
    /// bare store comes back to who asks the limiter.
    #[must_use]
    pub fn on_store_error(mut self, policy: OnStoreError) -> Self {
        self.on_store_error = policy;
        self
    }

    /// Keys and networks that this limit never admits, added to those it already has.
    pub fn deny<E: AsRef<str>>(mut self, entries: impl IntoIterator<Item = E>) -> Result<Self, NetworkError> {
        self.deny.extend(entries)?;
        Ok(self)
    }

    /// Cuts the budget into this many parts, so that a hot limit is not one hot key in the store. Their numbers add
    /// up to the whole exactly. Unless [`shard_by`](Self::shard_by) says otherwise it is one budget for all keys together from then
    /// on, of which each key has the part that it falls into: it is not for limits that everybody has one of. A part that would get less than 1 is refused, and so are more than
    /// [`MAX_SHARDS`](tidegate_core::MAX_SHARDS) parts.
    pub fn shards(mut self, shards: u32) -> Result<Self, QuotaError> {
        self.quota.split(shards)?;
        self.shards = shards;
        Ok(self)
    }

    /// How the budget of several shards is cut.
    #[must_use]
    pub fn shard_by(mut self, shard_by: ShardBy) -> Self {
        self.shard_by = shard_by;
        self
    }

    /// In shadow mode a limit decides and counts, but never denies; a decision it would have denied keeps its
    /// reason.
    #[must_use]
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// How keys are made alike before they are counted.
    #[must_use]
    pub fn normalize(mut self, normalize: Normalize) -> Self {
        self.normalize = Some(normalize);
        self
    }

    /// The same settings with another quota.
    pub fn with_quota(mut self, quota: Quota) -> Result<Self, QuotaError> {
        quota.split(self.shards)?;
        self.quota = quota;
        Ok(self)
    }

    /// Whether the budget may be cut as it is: a lease is held in one place, and who renews it has to find that.
    pub(crate) fn check_spread(&self) -> Result<(), QuotaError> {
        let is_spread = self.shards > 1 && self.shard_by == ShardBy::Spread;
        if is_spread && self.quota.algorithm() == Algorithm::Concurrency {
            return Err(QuotaError::new("shard_by", "spread", "\"key\", because concurrency cannot be spread"));
        }
        Ok(())
    }

    /// The quota.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Whether it only decides and counts.
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }
}

impl From<Quota> for Limit {
    fn from(quota: Quota) -> Self {
        Limit::new(quota)
    }
}
