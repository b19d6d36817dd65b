//! `Limit`: a quota with its settings, such as deny list, shards and failure policy.

use tidegate_core::{OnStoreError, Quota, QuotaError};

use super::{DenyList, Normalize};
use crate::net::NetworkError;

/// A quota with its settings, kept under a name by a [`Limiter`](crate::Limiter).
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
pub struct Limit {
    pub(super) on_store_error: OnStoreError,
    pub(super) quota: Quota,
    pub(super) deny: DenyList,
    pub(super) shards: u32,
    pub(super) shadow: bool,
    pub(super) normalize: Option<Normalize>,
}

impl Limit {
    /// Creates a limit with the default settings.
    pub fn new(quota: Quota) -> Self {
        Limit {
            quota,
            on_store_error: OnStoreError::default(),
            deny: DenyList::default(),
            shards: 1,
            shadow: false,
            normalize: None,
        }
    }

    /// Sets the policy for a broken store. Defaults to [`OnStoreError::Local`]. The memory store cannot break.
    ///
    /// The limiter applies it to every store but a [bare one](super::LimiterBuilder::bare_store). A limit in
    /// [shadow mode](Self::shadow) always fails open.
    #[must_use]
    pub fn on_store_error(mut self, policy: OnStoreError) -> Self {
        self.on_store_error = policy;
        self
    }

    /// Adds keys and networks that this limit never admits.
    pub fn deny<E: AsRef<str>>(mut self, entries: impl IntoIterator<Item = E>) -> Result<Self, NetworkError> {
        self.deny.extend(entries)?;
        Ok(self)
    }

    /// Cuts one budget for all keys into this many shards, so that a hot limit is not one hot key in the store. The
    /// shards add up to exactly the whole. A stable hash of the key selects the shard, so a key always has the same
    /// one. The hash is not secret, so a client that can choose its key can choose a shard.
    ///
    /// Do not use it for limits with a budget for each key: all keys of a shard share its budget. A shard of less than
    /// 1 is rejected, and so are more than [`MAX_SHARDS`](tidegate_core::MAX_SHARDS) shards.
    pub fn shards(mut self, shards: u32) -> Result<Self, QuotaError> {
        self.quota.split(shards)?;
        self.shards = shards;
        Ok(self)
    }

    /// Turns shadow mode on or off: the limit decides and counts, but never denies. A decision that would have been a
    /// denial keeps its reason.
    #[must_use]
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// Normalizes keys before they are counted.
    #[must_use]
    pub fn normalize(mut self, normalize: Normalize) -> Self {
        self.normalize = Some(normalize);
        self
    }

    /// Returns these settings with another quota.
    pub fn with_quota(mut self, quota: Quota) -> Result<Self, QuotaError> {
        quota.split(self.shards)?;
        self.quota = quota;
        Ok(self)
    }

    /// Returns the quota.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Returns whether the limit is in shadow mode.
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }
}

impl From<Quota> for Limit {
    fn from(quota: Quota) -> Self {
        Limit::new(quota)
    }
}
