//! What holds on to leases, and gives them back.

use std::collections::{BTreeSet, HashMap};
use std::future::{Future, poll_fn};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use tidegate_core::{Key, Lease, OnStoreError, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::desk::{Desk, Order};
use crate::clock::{JITTER, Sleeper, before};
use crate::resilience::TOGETHER;
use crate::{Call, Limiter};

/// A lease is renewed after that part of its time, so that two renewals may fail before it is lost.
const PART: u32 = 4;

/// How many leases are released in one go: those that a slow store's timeout is for, a few times side by side. Permits are taken
/// side by side as well, and what is given back has to keep up with that; without taking every connection of a pool, or opening a breaker.
const IN_ONE_GO: usize = 4 * TOGETHER;

/// How many orders are read in one go: a permit is one to keep its lease and one to release it.
const READ: usize = 2 * IN_ONE_GO;

/// Holds on to the leases of one limit: the only one who renews and releases them, so that a renewal never comes after a
/// release.
pub(super) struct Keeper {
    limiter: Limiter,
    limit: Arc<str>,
    sleeper: Arc<dyn Sleeper>,
    desk: Weak<Desk>,
    received: UnboundedReceiver<Order>,
    /// Those that are not carried out yet.
    orders: Vec<Order>,
    /// Those that the store is being told of.
    released: Vec<(Key<'static>, Lease)>,
    held: HashMap<Lease, (Timestamp, Key<'static>)>,
    /// The same by when they are to be renewed.
    due: BTreeSet<(Timestamp, Lease)>,
    /// The time when it was looked at last.
    last: Timestamp,
}

impl Drop for Keeper {
    /// Its runtime has ended, or nobody is there any more who could give orders.
    fn drop(&mut self) {
        if let Some(desk) = self.desk.upgrade() {
            let received = std::mem::replace(&mut self.received, unbounded_channel().1);
            let held = self.held.drain().map(|(lease, (_, key))| Order::Keep(key, lease));
            let released = self.released.drain(..).map(|(key, lease)| Order::Release(key, lease));
            desk.leave(received, held.chain(released).chain(self.orders.drain(..)));
        }
    }
}

impl Keeper {
    /// Starts one unless there is, on a task that ends when nobody can give orders any more.
    pub(super) fn start(limiter: &Limiter, limit: &Arc<str>, sleeper: &Arc<dyn Sleeper>, desk: &Arc<Desk>) {
        let Some((received, orders)) = desk.open() else { return };
        let keeper = Keeper {
            limiter: limiter.clone(),
            limit: Arc::clone(limit),
            sleeper: Arc::clone(sleeper),
            desk: Arc::downgrade(desk),
            received,
            orders,
            released: Vec::new(),
            held: HashMap::new(),
            due: BTreeSet::new(),
            last: sleeper.now(),
        };
        tokio::spawn(keeper.run());
    }

    async fn run(mut self) {
        self.take_over();
        loop {
            // In turn with orders: of both there may always be another.
            let wait = self.until_due();
            let is_due = wait == Some(Duration::ZERO);
            if is_due || !self.orders.is_empty() {
                if self.orders.is_empty() {
                    self.orders.extend(std::iter::from_fn(|| self.received.try_recv().ok()).take(READ));
                }
                self.carry_out().await;
                if is_due {
                    self.renew().await;
                }
                continue;
            }
            // Who waits for orders takes none before it is done, so none is lost when the time is up.
            let receive = self.received.recv_many(&mut self.orders, READ);
            let count = match wait {
                None => Some(receive.await),
                Some(wait) => before(self.sleeper.sleep(wait), receive).await,
            };
            if count == Some(0) {
                return;
            }
        }
    }

    /// Holds on to what another has held on to. It is due: nobody knows for how long it has waited.
    fn take_over(&mut self) {
        for order in std::mem::take(&mut self.orders) {
            match order {
                Order::Keep(key, lease) => self.keep(key, lease),
                order => self.orders.push(order),
            }
        }
        self.all_due(self.sleeper.now());
    }

    /// How long until a lease is to be renewed; none when there is none.
    fn until_due(&mut self) -> Option<Duration> {
        let now = self.sleeper.now();
        if self.last.since(now) > JITTER {
            self.all_due(now);
            self.last = now;
        } else {
            self.last = self.last.max(now);
        }
        let (at, _) = *self.due.first()?;
        Some(at.since(now).min(self.interval()))
    }

    /// When the clock was set back, nobody knows how long it has been: every lease is to be renewed.
    fn all_due(&mut self, now: Timestamp) {
        self.held.values_mut().for_each(|(at, _)| *at = now);
        self.due = self.held.keys().map(|lease| (now, *lease)).collect();
    }

    /// Carries out the first of the orders.
    async fn carry_out(&mut self) {
        let mut told = Vec::new();
        let mut orders = std::mem::take(&mut self.orders).into_iter();
        while self.released.len() < IN_ONE_GO
            && let Some(order) = orders.next()
        {
            match order {
                Order::Keep(key, lease) => self.keep(key, lease),
                Order::Release(key, lease) => {
                    if let Some((at, _)) = self.held.remove(&lease) {
                        self.due.remove(&(at, lease));
                    }
                    self.released.push((key, lease));
                }
                Order::Tell(when) => told.push(when),
            }
        }
        self.orders = orders.collect();
        let (first, others) = self.released.split_at(self.released.len().min(TOGETHER));
        // A breaker may let through only one, and all once that is answered.
        self.release(first).await;
        all_of(others.chunks(TOGETHER).map(|leases| self.release(leases))).await;
        self.released.clear();
        for when in told {
            // Whoever has gone away in the meantime is not told.
            let _ = when.send(());
        }
    }

    /// Releases these. What fails expires.
    async fn release(&self, leases: &[(Key<'static>, Lease)]) {
        let calls = leases.iter().map(|(key, lease)| self.limiter.release(&self.limit, key, *lease));
        self.limiter.each(calls).await;
    }

    /// Renews those that are due first, as many as a slow store's timeout is for: of more, those behind would never be asked
    /// about.
    async fn renew(&mut self) {
        let mut due = Vec::with_capacity(TOGETHER.min(self.due.len()));
        while due.len() < TOGETHER
            && let Some((_, lease)) = self.due.pop_first()
        {
            due.extend(self.held.get(&lease).map(|(_, key)| (key.clone(), lease)));
        }
        let denied = self.renew_some(due, |call| call).await;
        // Where the store is broken, a limit that decides by itself has room for a part of them only. They are not lost by
        // that: the store, which alone knows, may be well again before they expire.
        for (_, lease) in self.renew_some(denied, |call| call.on_store_error(OnStoreError::Closed)).await {
            self.held.remove(&lease);
            #[cfg(feature = "tracing")]
            tracing::warn!(limit = &*self.limit, "a lease has expired while its permit was held");
        }
    }

    /// Renews these, and says which were denied. The others are kept, also those that could not be asked about.
    async fn renew_some(
        &mut self,
        leases: Vec<(Key<'static>, Lease)>,
        ask: impl Fn(Call<'_>) -> Call<'_>,
    ) -> Vec<(Key<'static>, Lease)> {
        let calls = leases.iter().map(|(key, lease)| ask(self.limiter.renew(&self.limit, key, *lease)));
        let answers = self.limiter.each(calls).await;
        let mut denied = Vec::new();
        for ((key, lease), answer) in leases.into_iter().zip(answers) {
            match answer {
                Ok(decision) if !decision.allowed() => denied.push((key, lease)),
                _ => self.keep(key, lease),
            }
        }
        denied
    }

    fn keep(&mut self, key: Key<'static>, lease: Lease) {
        let at = self.sleeper.now().saturating_add(self.interval());
        self.held.insert(lease, (at, key));
        self.due.insert((at, lease));
    }

    /// After what time a lease is renewed.
    fn interval(&self) -> Duration {
        // A limit that is gone has no leases to renew; it may come back.
        let ttl = self.limiter.quota(&self.limit).map_or(Duration::from_secs(1), |quota| quota.parts().period);
        ttl / PART
    }
}

/// Waits for all of them, side by side.
async fn all_of(works: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut works: Vec<_> = works.map(Box::pin).collect();
    let work_on = poll_fn(|context| {
        works.retain_mut(|work| work.as_mut().poll(context).is_pending());
        if works.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    });
    work_on.await;
}
