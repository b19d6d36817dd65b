//! What holds on to leases, and gives them back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_core::{Key, Lease, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::Limiter;
use crate::clock::{Sleeper, before};

/// What is to become of a lease.
#[derive(Debug)]
pub(super) enum Order {
    /// Renew it from now on.
    Keep(Key<'static>, Lease),
    /// Renew it no longer, and release it.
    Release(Key<'static>, Lease),
}

/// A lease is renewed after that part of its time, so that two renewals may fail before it is lost.
const PART: u32 = 3;
/// How many orders are carried out together, at most.
const TOGETHER: usize = 256;

/// Holds on to the leases of one limit: the only one who renews and releases them, so that a renewal never comes after a
/// release.
pub(super) struct Keeper {
    limiter: Limiter,
    limit: Arc<str>,
    sleeper: Arc<dyn Sleeper>,
    held: HashMap<Lease, Timestamp>,
    /// The same by when they are to be renewed.
    due: BTreeMap<(Timestamp, Lease), Key<'static>>,
}

impl Keeper {
    /// Starts one, on a task that ends when nobody can give orders any more.
    pub(super) fn start(limiter: Limiter, limit: Arc<str>, sleeper: Arc<dyn Sleeper>) -> UnboundedSender<Order> {
        let (orders, received) = unbounded_channel();
        let keeper = Keeper { limiter, limit, sleeper, held: HashMap::new(), due: BTreeMap::new() };
        tokio::spawn(keeper.run(received));
        orders
    }

    async fn run(mut self, mut received: UnboundedReceiver<Order>) {
        let mut orders = Vec::with_capacity(TOGETHER);
        loop {
            let next = self.due.first_key_value().map(|((at, _), _)| at.since(self.sleeper.now()));
            let receive = received.recv_many(&mut orders, TOGETHER);
            let count = match next {
                None => Some(receive.await),
                // An order that is lost when the time is up would be a lease that nobody releases: none is, because
                // `recv_many` takes none before it is done.
                Some(wait) => before(self.sleeper.sleep(wait), receive).await,
            };
            match count {
                Some(0) => return,
                Some(_) => self.carry_out(&mut orders).await,
                None => self.renew().await,
            }
        }
    }

    async fn carry_out(&mut self, orders: &mut Vec<Order>) {
        let mut released = Vec::new();
        for order in orders.drain(..) {
            match order {
                Order::Keep(key, lease) => self.keep(key, lease),
                Order::Release(key, lease) => {
                    if let Some(at) = self.held.remove(&lease) {
                        self.due.remove(&(at, lease));
                    }
                    released.push((key, lease));
                }
            }
        }
        // What fails expires.
        let calls = released.iter().map(|(key, lease)| self.limiter.release(&self.limit, key, *lease));
        self.limiter.each(calls).await;
    }

    /// Renews those whose time has come.
    async fn renew(&mut self) {
        let now = self.sleeper.now();
        let mut due = Vec::new();
        while let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= now && due.len() < TOGETHER) {
            let ((_, lease), key) = first.remove_entry();
            due.push((key, lease));
        }
        let calls = due.iter().map(|(key, lease)| self.limiter.renew(&self.limit, key, *lease));
        let answers = self.limiter.each(calls).await;
        for ((key, lease), answer) in due.into_iter().zip(answers) {
            match answer {
                Ok(decision) if !decision.allowed() => {
                    self.held.remove(&lease);
                    #[cfg(feature = "tracing")]
                    tracing::warn!(limit = &*self.limit, "a lease has expired while its permit was held");
                }
                // Also when the store is broken: it may be well again before the lease expires.
                _ => self.keep(key, lease),
            }
        }
    }

    fn keep(&mut self, key: Key<'static>, lease: Lease) {
        // A limit that is gone has no leases to renew; it may come back.
        let ttl =
            self.limiter.quota(&self.limit).map_or(std::time::Duration::from_secs(1), |quota| quota.parts().period);
        let at = self.sleeper.now().saturating_add(ttl / PART);
        self.held.insert(lease, at);
        self.due.insert((at, lease), key);
    }
}
