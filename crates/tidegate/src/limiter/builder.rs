//! The builder of a limiter.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{DynStore, Store};

use super::registry::Limits;
use super::{BuildError, DenyList, Limit, Limiter};
use crate::clock::Sleeper;
use crate::net::NetworkError;
use crate::resilience::Resilience;
use crate::store::memory::MemoryStore;

/// A builder of a [`Limiter`]; see [`Limiter::builder`].
#[derive(Default)]
#[must_use = "a limiter exists once `build` is called"]
pub struct LimiterBuilder {
    limits: Vec<(String, Limit)>,
    deny: Vec<(String, DenyList)>,
    deny_all: DenyList,
    prefix: String,
    store: Option<Arc<dyn DynStore>>,
    is_bare: bool,
    resilience: Option<Resilience>,
    /// The timeout and the number of replicas of a config, for a [`Resilience`] that the caller does not set.
    outage_defaults: Option<(Duration, u32)>,
    sleeper: Option<Arc<dyn Sleeper>>,
    leaves_counting: bool,
}

impl LimiterBuilder {
    /// Adds a limit by its name: a quota, or a [`Limit`] when it has more settings.
    pub fn limit(mut self, name: impl Into<String>, limit: impl Into<Limit>) -> Self {
        self.limits.push((name.into(), limit.into()));
        self
    }

    /// Adds several limits, such as those of a config.
    pub fn limits<N: Into<String>, L: Into<Limit>>(mut self, limits: impl IntoIterator<Item = (N, L)>) -> Self {
        self.limits.extend(limits.into_iter().map(|(name, limit)| (name.into(), limit.into())));
        self
    }

    /// Adds keys and networks that one limit never admits.
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

    /// Adds keys and networks that no limit admits.
    pub fn deny_all<E: AsRef<str>>(mut self, entries: impl IntoIterator<Item = E>) -> Result<Self, NetworkError> {
        self.deny_all.extend(entries)?;
        Ok(self)
    }

    /// Sets a prefix that separates this limiter's keys from those of others on the same store. Defaults to none: limits of
    /// the same name share their keys.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the store. Defaults to a [`MemoryStore`] with its defaults. An `Arc` of a store can be shared by several
    /// limiters.
    ///
    /// A store that does I/O gets a timeout of 50 milliseconds, a circuit breaker, and the
    /// [`on_store_error`](Limit::on_store_error) of each limit, unless it has a
    /// [failure policy](tidegate_core::Capabilities::failure_policy) already. See [`Self::resilience`]. Wrappers of your own, such as a
    /// `TimeoutStore`, belong inside a `FallbackStore`, or into [`Self::bare_store`]: otherwise they are wrapped once more.
    pub fn store(mut self, store: impl Store + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self.is_bare = false;
        self
    }

    /// Sets the store without wrappers: calls wait as long as the store does, its errors are returned, and
    /// `on_store_error` has no effect.
    pub fn bare_store(mut self, store: impl Store + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self.is_bare = true;
        self
    }

    /// Sets the timeout, the breaker and the other wrappers around a [store](Self::store) that does I/O. Defaults to
    /// the defaults of [`Resilience`].
    pub fn resilience(mut self, resilience: Resilience) -> Self {
        self.resilience = Some(resilience);
        self
    }

    /// Sets the timeout and the number of replicas for a [`Resilience`] that the caller does not set.
    #[cfg(feature = "config")]
    pub(crate) fn outage_defaults(mut self, timeout: Duration, expected_replicas: u32) -> Self {
        self.outage_defaults = Some((timeout, expected_replicas));
        self
    }

    /// Sets the timer for `acquire` and for the timeout around a store. Defaults to tokio's timer with the feature
    /// `tokio`, and to none without it.
    pub fn sleeper(mut self, sleeper: impl Sleeper + 'static) -> Self {
        self.sleeper = Some(Arc::new(sleeper));
        self
    }

    /// Sets whether the limiter counts its decisions as [`tidegate_decisions_total`](crate::resilience#metrics). Defaults to
    /// true. A program that exports counts of its own sets it to false.
    pub fn count_decisions(mut self, counts: bool) -> Self {
        self.leaves_counting = !counts;
        self
    }

    /// Builds the limiter.
    pub fn build(mut self) -> Result<Limiter, BuildError> {
        let limits = self.take_limits()?;
        let store = match self.store.take() {
            Some(store) if self.is_bare => store,
            Some(store) => self.add_resilience(store)?,
            None => Arc::new(MemoryStore::new()),
        };
        #[cfg(feature = "tokio")]
        let default_sleeper: Option<Arc<dyn Sleeper>> = Some(Arc::new(crate::clock::SteadySleeper));
        #[cfg(not(feature = "tokio"))]
        let default_sleeper = None;
        Ok(Limiter::from_parts(limits, store, self.sleeper.or(default_sleeper), !self.leaves_counting))
    }

    /// Puts a timeout, a breaker and the failure policies around a store that needs them.
    fn add_resilience(&mut self, store: Arc<dyn DynStore>) -> Result<Arc<dyn DynStore>, BuildError> {
        if store.is_immediate() || store.capabilities().failure_policy {
            return Ok(store);
        }
        if let Some(resilience) = self.resilience.take() {
            return Ok(Arc::new(resilience.build(store)));
        }
        let resilience = match &self.sleeper {
            Some(sleeper) => Resilience::new(Arc::clone(sleeper)),
            #[cfg(feature = "tokio")]
            None => Resilience::default(),
            #[cfg(not(feature = "tokio"))]
            None => return Err(BuildError::NoTimer),
        };
        let resilience = match self.outage_defaults {
            Some((timeout, replicas)) => resilience.timeout(timeout).expected_replicas(replicas),
            None => resilience,
        };
        Ok(Arc::new(resilience.build(store)))
    }

    /// Returns the limits, ready for decisions.
    pub(super) fn take_limits(&mut self) -> Result<Limits, BuildError> {
        let mut limits = Limits::new(mem::take(&mut self.prefix), mem::take(&mut self.deny_all));
        for (name, limit) in self.limits.drain(..) {
            limits.add(name, limit)?;
        }
        for (name, list) in self.deny.drain(..) {
            limits.deny(&name, list)?;
        }
        Ok(limits)
    }
}
