//! Background work of a two-tier store: fetching batches from the shared store, and returning idle units.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Cost, Op, Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::balance::RefillStep;
use super::table::{BalanceTable, Refill, RefillResult};
use crate::clock::Sleeper;
use crate::random::Random;

/// How long a process sends no refill after a denial: from half of this to one and a half times as long. The random part
/// changes the order of the processes, so that not always the same one takes everything.
const PACE: Duration = Duration::from_millis(10);
/// How many keys' units are returned with one call.
const RETURNS_PER_CALL: usize = 256;

/// The state that a two-tier store shares with its background work.
pub(super) struct SharedState<S> {
    pub(super) store: S,
    pub(super) table: BalanceTable,
    pub(super) sleeper: Arc<dyn Sleeper>,
    pub(super) replicas: NonZeroU32,
    pub(super) idle: Duration,
    pub(super) random: Random,
    /// Whether a task returns idle units.
    pub(super) has_returner: AtomicBool,
    /// Serializes returns: until they have arrived, the units that were taken out are counted nowhere else.
    pub(super) returning: Mutex<()>,
    /// The runtime in which the store was built. That of a caller may be busy with something else while every other caller
    /// waits for the refill.
    pub(super) runtime: Option<Handle>,
}

impl<S: Store + 'static> SharedState<S> {
    /// Returns the runtime for background work.
    pub(super) fn runtime(&self) -> Option<Handle> {
        self.runtime.clone().or_else(|| Handle::try_current().ok())
    }

    /// Sends a refill, which goes on when its caller is dropped.
    pub(super) fn send(self: &Arc<Self>, refill: Refill, runtime: &Handle) {
        runtime.spawn(Arc::clone(self).refill(refill));
        if !self.has_returner.swap(true, Ordering::AcqRel) {
            runtime.spawn(return_idle(Arc::downgrade(self), ReturnerFlag(Arc::downgrade(self))));
        }
    }

    async fn refill(self: Arc<Self>, refill: Refill) {
        let result = self.fetch(&refill).await.unwrap_or_else(|error| {
            self.table.with_account(&refill.account, |entry| entry.balance.refill_failed());
            RefillResult::Failed(error, refill.policy)
        });
        // An error means that no request waits.
        let _ = refill.result.send(Some(result));
    }

    /// Requests a batch from the store, or less where it has less.
    async fn fetch(&self, Refill { account, size, policy, .. }: &Refill) -> Result<RefillResult, StoreError> {
        let mut units = size.units;
        loop {
            let Ok(cost) = Cost::new(units) else { unreachable!("a refill requests at least its minimum") };
            let request = account.request(Op::Limit(cost), *policy);
            let answer = self.store.apply(&request).await?;
            let rules = &account.rules;
            let step = size.step(units, &answer);
            if let RefillStep::Retry(less) = step {
                units = less;
                continue;
            }
            self.table.with_account(account, |entry| {
                let (balance, now) = (&mut entry.balance, self.sleeper.now());
                match step {
                    RefillStep::Granted(units) => balance.refill_granted(rules, units, &answer, now),
                    RefillStep::Denied(retry) => balance.refill_denied(size.min, retry, self.pace(), &answer, now),
                    _ => balance.refill_failed(),
                }
            });
            let is_fallback = step == RefillStep::Fallback;
            return Ok(if is_fallback { RefillResult::Fallback(answer, *policy) } else { RefillResult::Answered });
        }
    }

    fn pace(&self) -> Duration {
        PACE / 2 + Duration::from_micros(self.random.next() % PACE.as_micros() as u64)
    }

    /// Returns the units that were idle for so long. A return that fails is not repeated: it may have been applied.
    pub(super) async fn return_idle(&self, idle: Duration) {
        let _serialized = self.returning.lock().await;
        for some in self.table.take_idle(idle, &*self.sleeper).chunks(RETURNS_PER_CALL) {
            let now = self.sleeper.now();
            // The calls before may have taken long.
            let in_time: Vec<_> = some.iter().filter(|idle| now <= idle.deadline).collect();
            let requests: Vec<_> = in_time.iter().map(|idle| idle.refund()).collect();
            if requests.is_empty() {
                continue;
            }
            let answers = self.store.apply_each(&requests).await;
            // Without an answer, a return may still be on its way.
            let arrived = in_time.into_iter().zip(answers).filter(|(_, answer)| answer.is_ok());
            arrived.for_each(|(idle, _)| self.table.return_arrived(idle));
        }
    }
}

/// Marks that a task returns idle units, until it is dropped, also with its runtime.
struct ReturnerFlag<S>(Weak<SharedState<S>>);

impl<S> Drop for ReturnerFlag<S> {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.has_returner.store(false, Ordering::Release);
        }
    }
}

/// Returns idle units, as long as there are entries and the store exists.
async fn return_idle<S: Store + 'static>(inner: Weak<SharedState<S>>, mut flag: ReturnerFlag<S>) {
    loop {
        let Some(wait) = inner.upgrade().map(|inner| inner.sleeper.sleep(inner.idle / 2)) else { return };
        wait.await;
        let Some(present) = inner.upgrade() else { return };
        present.return_idle(present.idle).await;
        if present.table.keys() > 0 {
            continue;
        }
        drop(flag);
        // Goes on if an entry was added while the flag was still set.
        if present.table.keys() == 0 || present.has_returner.swap(true, Ordering::AcqRel) {
            return;
        }
        flag = ReturnerFlag(Weak::clone(&inner));
    }
}
