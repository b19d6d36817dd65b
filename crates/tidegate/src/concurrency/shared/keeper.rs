//! What holds on to leases, and gives them back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Key, Lease, OnStoreError, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::clock::{JITTER, Sleeper, before};
use crate::resilience::TOGETHER;
use crate::{Call, Limiter};

/// What is to be done.
#[derive(Debug)]
pub(super) enum Order {
    /// Renew a lease from now on.
    Keep(Key<'static>, Lease),
    /// Renew it no longer, and release it.
    Release(Key<'static>, Lease),
    /// Say when everything before this is done.
    Tell(oneshot::Sender<()>),
}

/// A lease is renewed after that part of its time, so that two renewals may fail before it is lost.
const PART: u32 = 4;

/// Holds on to the leases of one limit: the only one who renews and releases them, so that a renewal never comes after a
/// release.
pub(super) struct Keeper {
    limiter: Limiter,
    limit: Arc<str>,
    sleeper: Arc<dyn Sleeper>,
    held: HashMap<Lease, Timestamp>,
    /// The same by when they are to be renewed.
    due: BTreeMap<(Timestamp, Lease), Key<'static>>,
    /// The time when it was looked at last.
    last: Timestamp,
}

impl Keeper {
    /// Starts one, on a task that ends when nobody can give orders any more.
    pub(super) fn start(limiter: Limiter, limit: Arc<str>, sleeper: Arc<dyn Sleeper>) -> UnboundedSender<Order> {
        let (orders, received) = unbounded_channel();
        let last = sleeper.now();
        let keeper = Keeper { limiter, limit, sleeper, held: HashMap::new(), due: BTreeMap::new(), last };
        tokio::spawn(keeper.run(received));
        orders
    }

    async fn run(mut self, mut received: UnboundedReceiver<Order>) {
        let mut orders = Vec::with_capacity(TOGETHER);
        loop {
            // In turn with orders: of both there may always be another.
            let wait = match self.until_due() {
                Some(Duration::ZERO) => {
                    orders.extend(std::iter::from_fn(|| received.try_recv().ok()).take(TOGETHER));
                    self.carry_out(&mut orders).await;
                    self.renew().await;
                    continue;
                }
                wait => wait,
            };
            // Who waits for orders takes none before it is done, so none is lost when the time is up.
            let receive = received.recv_many(&mut orders, TOGETHER);
            let count = match wait {
                None => Some(receive.await),
                Some(wait) => before(self.sleeper.sleep(wait), receive).await,
            };
            match count {
                Some(0) => return,
                Some(_) => self.carry_out(&mut orders).await,
                None => {}
            }
        }
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
        let (at, _) = *self.due.first_key_value()?.0;
        Some(at.since(now).min(self.interval()))
    }

    /// When the clock was set back, nobody knows how long it has been: every lease is to be renewed.
    fn all_due(&mut self, now: Timestamp) {
        self.held.values_mut().for_each(|at| *at = now);
        self.due = std::mem::take(&mut self.due).into_iter().map(|((_, lease), key)| ((now, lease), key)).collect();
    }

    async fn carry_out(&mut self, orders: &mut Vec<Order>) {
        let (mut released, mut told) = (Vec::new(), Vec::new());
        for order in orders.drain(..) {
            match order {
                Order::Keep(key, lease) => self.keep(key, lease),
                Order::Release(key, lease) => {
                    if let Some(at) = self.held.remove(&lease) {
                        self.due.remove(&(at, lease));
                    }
                    released.push((key, lease));
                }
                Order::Tell(when) => told.push(when),
            }
        }
        // What fails expires.
        let calls = released.iter().map(|(key, lease)| self.limiter.release(&self.limit, key, *lease));
        self.limiter.each(calls).await;
        for when in told {
            // Whoever has gone away in the meantime is not told.
            let _ = when.send(());
        }
    }

    /// Renews those that are due first, as many as a slow store's timeout is for: of more, those behind would never be asked
    /// about.
    async fn renew(&mut self) {
        let mut due = Vec::with_capacity(TOGETHER.min(self.due.len()));
        while due.len() < TOGETHER
            && let Some(((_, lease), key)) = self.due.pop_first()
        {
            due.push((key, lease));
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
        self.held.insert(lease, at);
        self.due.insert((at, lease), key);
    }

    /// After what time a lease is renewed.
    fn interval(&self) -> Duration {
        // A limit that is gone has no leases to renew; it may come back.
        let ttl = self.limiter.quota(&self.limit).map_or(Duration::from_secs(1), |quota| quota.parts().period);
        ttl / PART
    }
}
