//! Where orders about leases go.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Key, Lease};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

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

/// Where orders go. Who carries them out may end with its runtime, while permits are held on others: then they are kept for who
/// comes next.
#[derive(Default)]
pub(super) struct Desk(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    /// To who carries them out; none before anybody has asked.
    orders: Option<UnboundedSender<Order>>,
    /// Those that nobody has carried out, the leases that are held among them.
    left: Vec<Order>,
}

impl Desk {
    /// What somebody begins with who carries out orders from now on: those to come, and those that are left. None while there
    /// is another.
    pub(super) fn open(&self) -> Option<(UnboundedReceiver<Order>, Vec<Order>)> {
        let mut inside = self.lock();
        if inside.orders.as_ref().is_some_and(|orders| !orders.is_closed()) {
            return None;
        }
        let (orders, received) = unbounded_channel();
        inside.orders = Some(orders);
        Some((received, std::mem::take(&mut inside.left)))
    }

    pub(super) fn give(&self, order: Order) {
        // Sent under the lock: what is not read when somebody leaves was given before what is left afterwards.
        let mut inside = self.lock();
        let unsent = match &inside.orders {
            Some(orders) => orders.send(order).err().map(|unsent| unsent.0),
            None => Some(order),
        };
        inside.left.extend(unsent.filter(is_to_be_left));
    }

    /// Who has carried out orders ends, and has begun with or holds on to these.
    pub(super) fn leave(&self, mut received: UnboundedReceiver<Order>, orders: impl Iterator<Item = Order>) {
        let mut inside = self.lock();
        received.close();
        let unread = std::iter::from_fn(|| received.try_recv().ok());
        inside.left.extend(orders.chain(unread).filter(is_to_be_left));
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who waits to be told is told by being dropped that nobody is there.
fn is_to_be_left(order: &Order) -> bool {
    !matches!(order, Order::Tell(_))
}
