//! The settings of a leased store.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::Leased;
use super::refill::Inner;
use super::table::Table;
use crate::clock::{Sleeper, TokioSleeper};
use crate::random::{Random, secrets};

/// Settings of a [`Leased`] store, from [`Leased::builder`].
#[must_use = "a store exists once `build` is called"]
pub struct LeasedBuilder {
    replicas: NonZeroU32,
    max_keys: usize,
    idle: Duration,
    sleeper: Arc<dyn Sleeper>,
}

impl Default for LeasedBuilder {
    fn default() -> Self {
        LeasedBuilder {
            replicas: NonZeroU32::MIN.saturating_add(15),
            max_keys: 10_000,
            idle: Duration::from_secs(1),
            sleeper: Arc::new(TokioSleeper),
        }
    }
}

impl LeasedBuilder {
    /// How many processes share the store: 16 unless said otherwise, and 0 counts as 1. None of them takes more than that
    /// part of a capacity at once. A quota of which that part is less than 2 is not leased.
    pub fn expected_replicas(mut self, replicas: u32) -> Self {
        self.replicas = NonZeroU32::new(replicas).unwrap_or(NonZeroU32::MIN);
        self
    }

    /// For how many keys there is room, about: 10,000 unless said otherwise. Those for which there is none are asked of the
    /// store, one by one.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// After how long what nobody has used is given back: 1 second unless said otherwise, and up to half as long again. Not
    /// less than 2 milliseconds.
    pub fn idle_after(mut self, idle: Duration) -> Self {
        self.idle = idle.max(Duration::from_millis(2));
        self
    }

    /// What its time is measured with: the system's clock and tokio's timer unless said otherwise.
    pub fn sleeper(mut self, sleeper: impl Sleeper + 'static) -> Self {
        self.sleeper = Arc::new(sleeper);
        self
    }

    /// A store around `store`. In a tokio runtime: what goes on in the background goes on there.
    pub fn build<S>(self, store: S) -> Leased<S> {
        let LeasedBuilder { replicas, max_keys, idle, sleeper } = self;
        // Not the same numbers in every process: see the pace.
        let [seed, ..] = secrets();
        let (table, random, tended) = (Table::new(max_keys), Random::new(seed), AtomicBool::new(false));
        let (returning, runtime) = (Mutex::default(), Handle::try_current().ok());
        Leased { inner: Arc::new(Inner { store, table, sleeper, replicas, idle, random, tended, returning, runtime }) }
    }
}
