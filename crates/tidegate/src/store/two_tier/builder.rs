//! `TwoTierStoreBuilder`: the settings of a two-tier store.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::TwoTierStore;
use super::refill::SharedState;
use super::table::BalanceTable;
use crate::clock::{Sleeper, TokioSleeper};
use crate::random::{Random, draw_secrets};
use crate::store::EXPECTED_REPLICAS;

/// The settings of a [`TwoTierStore`], from [`TwoTierStore::builder`].
#[must_use = "a store exists once `build` is called"]
pub struct TwoTierStoreBuilder {
    replicas: NonZeroU32,
    max_keys: usize,
    idle: Duration,
    sleeper: Arc<dyn Sleeper>,
}

impl Default for TwoTierStoreBuilder {
    fn default() -> Self {
        TwoTierStoreBuilder {
            replicas: EXPECTED_REPLICAS,
            max_keys: 10_000,
            idle: Duration::from_secs(1),
            sleeper: Arc::new(TokioSleeper),
        }
    }
}

impl TwoTierStoreBuilder {
    /// Sets how many processes share the store. Defaults to 1, as every setting of this name does; 0 counts as 1.
    ///
    /// A process takes no more than this part of a capacity at once. A quota of which that part is less than 2 is not taken
    /// in batches. With more processes than expected, the [bound](TwoTierStore#the-bound) is higher by a batch for each.
    pub fn expected_replicas(mut self, replicas: u32) -> Self {
        self.replicas = NonZeroU32::new(replicas).unwrap_or(NonZeroU32::MIN);
        self
    }

    /// Sets for about how many keys there is a balance. Defaults to 10,000. Requests for other keys go to the store one by
    /// one.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Sets how long a balance is unused before it is returned to the store, and up to half as long again. Defaults to 1
    /// second; the minimum is 2 milliseconds.
    pub fn idle_after(mut self, idle: Duration) -> Self {
        self.idle = idle.max(Duration::from_millis(2));
        self
    }

    /// Sets the clock and timer. Defaults to the system's clock and tokio's timer.
    pub fn sleeper(mut self, sleeper: impl Sleeper + 'static) -> Self {
        self.sleeper = Arc::new(sleeper);
        self
    }

    /// Wraps `store`. Call it in a tokio runtime, which then runs the background work.
    pub fn build<S>(self, store: S) -> TwoTierStore<S> {
        let TwoTierStoreBuilder { replicas, max_keys, idle, sleeper } = self;
        // A seed per process: the random part of the pace must differ between processes.
        let [seed, ..] = draw_secrets();
        let (table, random, has_returner) = (BalanceTable::new(max_keys), Random::new(seed), AtomicBool::new(false));
        let (returning, runtime) = (Mutex::default(), Handle::try_current().ok());
        let inner = SharedState { store, table, sleeper, replicas, idle, random, has_returner, returning, runtime };
        TwoTierStore { inner: Arc::new(inner) }
    }
}
