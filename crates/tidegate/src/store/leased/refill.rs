//! Fetching quota from the store, and giving it back.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Cost, Op, Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::hand::Next;
use super::table::{Ended, Idle, Order, Table};
use crate::clock::Sleeper;
use crate::random::Random;

/// How long a process that was denied does not ask, at least: half of it and up to as much again, so that processes do not
/// come in the same order every time, where the first finds everything and the last nothing.
const PACE: Duration = Duration::from_millis(10);
/// How many keys are given back with one call.
const TOGETHER: usize = 256;

/// What a leased store and its work in the background share.
pub(super) struct Inner<S> {
    pub(super) store: S,
    pub(super) table: Table,
    pub(super) sleeper: Arc<dyn Sleeper>,
    pub(super) replicas: NonZeroU32,
    pub(super) idle: Duration,
    pub(super) random: Random,
    /// Whether somebody looks for what is idle.
    pub(super) tended: AtomicBool,
    /// Who gives back, one after the other: what is taken out of the hands is nowhere else until it has arrived.
    pub(super) returning: Mutex<()>,
    /// Where it was made. That of who asks may have nothing to do for as long as it likes, with a refill that everybody waits
    /// for.
    pub(super) runtime: Option<Handle>,
}

impl<S: Store + 'static> Inner<S> {
    /// Where there is one for what goes on in the background.
    pub(super) fn runtime(&self) -> Option<Handle> {
        self.runtime.clone().or_else(|| Handle::try_current().ok())
    }

    /// Makes a refill, whatever becomes of who wanted it.
    pub(super) fn begin(self: &Arc<Self>, order: Order, runtime: &Handle) {
        runtime.spawn(Arc::clone(self).refill(order));
        if !self.tended.swap(true, Ordering::AcqRel) {
            runtime.spawn(tend(Arc::downgrade(self), Tended(Arc::downgrade(self))));
        }
    }

    async fn refill(self: Arc<Self>, order: Order) {
        let ended = self.ask(&order).await.unwrap_or_else(|error| {
            self.table.of(&order.owner, |entry| entry.hand.failed());
            Ended::Failed(error, order.policy)
        });
        // Nobody may be waiting.
        let _ = order.ends.send(Some(ended));
    }

    /// Asks the store for a batch, or for less where it has less.
    async fn ask(&self, Order { owner, wanted, policy, .. }: &Order) -> Result<Ended, StoreError> {
        let mut units = wanted.units;
        loop {
            let Ok(cost) = Cost::new(units) else { unreachable!("at least what is needed is asked for") };
            let request = owner.asking(Op::Limit(cost), *policy);
            let answer = self.store.apply(&request).await?;
            let rules = &owner.rules;
            let next = wanted.next(units, &answer);
            if let Next::Ask(less) = next {
                units = less;
                continue;
            }
            self.table.of(owner, |entry| {
                let now = self.sleeper.now();
                match next {
                    Next::Granted(units) => entry.hand.granted(rules, units, &answer, now),
                    Next::Refused(retry) => entry.hand.refused(wanted.least, retry, self.pace(), &answer, now),
                    _ => entry.hand.failed(),
                }
            });
            return Ok(if next == Next::Broken { Ended::Broken(answer, *policy) } else { Ended::Answered });
        }
    }

    fn pace(&self) -> Duration {
        PACE / 2 + Duration::from_micros(self.random.next() % PACE.as_micros() as u64)
    }

    /// Gives back what has been idle for so long. What fails is lost: it may have been given back.
    pub(super) async fn give_back(&self, idle: Duration) {
        let _alone = self.returning.lock().await;
        for some in self.table.idle(idle, &*self.sleeper).chunks(TOGETHER) {
            let now = self.sleeper.now();
            // Those before may have taken long.
            let in_time = some.iter().filter(|idle| idle.owner.rules.is_in_time(idle.until, now));
            let requests: Vec<_> = in_time.map(Idle::refund).collect();
            if !requests.is_empty() {
                let _ = self.store.apply_each(&requests).await;
            }
        }
    }
}

/// Somebody looks for what is idle, until this is dropped: with its runtime, too.
struct Tended<S>(Weak<Inner<S>>);

impl<S> Drop for Tended<S> {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.tended.store(false, Ordering::Release);
        }
    }
}

/// Gives back what is idle, as long as there is anything in hand and anybody to have it.
async fn tend<S: Store + 'static>(inner: Weak<Inner<S>>, mut tended: Tended<S>) {
    loop {
        let Some(wait) = inner.upgrade().map(|inner| inner.sleeper.sleep(inner.idle / 2)) else { return };
        wait.await;
        let Some(present) = inner.upgrade() else { return };
        present.give_back(present.idle).await;
        if present.table.keys() > 0 {
            continue;
        }
        drop(tended);
        // Unless somebody came meanwhile who found it tended.
        if present.table.keys() == 0 || present.tended.swap(true, Ordering::AcqRel) {
            return;
        }
        tended = Tended(Weak::clone(&inner));
    }
}
