//! How a limiter is made.

use std::mem;
use std::sync::Arc;

use tidegate_core::Store;

use super::any_store::AnyStore;
use super::limits::{Limits, Shared};
use super::{BuildError, DenyList, Limit, Limiter};
use crate::clock::Sleeper;
use crate::net::NetworkError;
use crate::store::memory::MemoryStore;

/// How a [`Limiter`] is made; see [`Limiter::builder`].
#[derive(Default)]
#[must_use = "a limiter exists once `build` is called"]
pub struct LimiterBuilder {
    limits: Vec<(String, Limit)>,
    deny: Vec<(String, DenyList)>,
    deny_all: DenyList,
    prefix: String,
    store: Option<AnyStore>,
    sleeper: Option<Arc<dyn Sleeper>>,
    seed: u64,
}

impl LimiterBuilder {
    /// A limit by its name: a quota, or a [`Limit`] when it has more settings.
    pub fn limit(mut self, name: impl Into<String>, limit: impl Into<Limit>) -> Self {
        self.limits.push((name.into(), limit.into()));
        self
    }

    /// Several limits, such as those of a config.
    pub fn limits<N: Into<String>, L: Into<Limit>>(mut self, limits: impl IntoIterator<Item = (N, L)>) -> Self {
        self.limits.extend(limits.into_iter().map(|(name, limit)| (name.into(), limit.into())));
        self
    }

    /// Keys and networks that one limit never admits.
    pub fn deny<E: AsRef<str>>(
        mut self,
        name: impl Into<String>,
        entries: impl IntoIterator<Item = E>,
    ) -> Result<Self, NetworkError> {
        let mut list = DenyList::default();
        list.extend(entries)?;
        self.deny.push((name.into(), list));
        Ok(self)
    }

    /// Keys and networks that no limit admits.
    pub fn deny_all<E: AsRef<str>>(mut self, entries: impl IntoIterator<Item = E>) -> Result<Self, NetworkError> {
        self.deny_all.extend(entries)?;
        Ok(self)
    }

    /// Sets this limiter's keys apart from those of others that share the store: none unless said otherwise, and then limits of
    /// the same name are the same.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Where state lives: a [`MemoryStore`] with the defaults unless said otherwise. An `Arc` of a store can be shared
    /// by several limiters.
    pub fn store(mut self, store: impl Store + 'static) -> Self {
        self.store = Some(AnyStore::new(store));
        self
    }

    /// What `acquire` waits with. With the feature `tokio` it waits on tokio's timer unless said otherwise.
    pub fn sleeper(mut self, sleeper: impl Sleeper + 'static) -> Self {
        self.sleeper = Some(Arc::new(sleeper));
        self
    }

    /// Where the generator begins that picks the parts of spread limits, for runs that can be repeated.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The limiter, or what is wrong with it.
    pub fn build(mut self) -> Result<Limiter, BuildError> {
        let limits = self.take_limits()?;
        #[cfg(feature = "tokio")]
        let default_sleeper: Option<Arc<dyn Sleeper>> = Some(Arc::new(crate::clock::SteadySleeper));
        #[cfg(not(feature = "tokio"))]
        let default_sleeper = None;
        Ok(Limiter::assemble(
            limits,
            self.store.unwrap_or_else(|| AnyStore::new(MemoryStore::new())),
            self.sleeper.or(default_sleeper),
            self.seed,
        ))
    }

    /// The limits, ready to be asked.
    pub(super) fn take_limits(&mut self) -> Result<Limits, BuildError> {
        let shared = Shared { prefix: mem::take(&mut self.prefix), deny: Arc::new(mem::take(&mut self.deny_all)) };
        let mut limits = Limits::new(shared);
        for (name, limit) in self.limits.drain(..) {
            limits.add(name, limit)?;
        }
        for (name, list) in self.deny.drain(..) {
            limits.deny(&name, list)?;
        }
        Ok(limits)
    }
}
