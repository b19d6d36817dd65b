//! `FairConcurrency::acquire`: waiting for a slot in the queue of a tenant.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::Key;

use super::tenants::Place;
use super::{FairConcurrency, Inner};
use crate::clock::complete_before;
use crate::concurrency::{Permit, RejectReason, Rejected};

impl FairConcurrency {
    /// Waits for a permit for a tenant, for `within` at most.
    ///
    /// Callers of one tenant are served in order. Between tenants, a free slot goes to one below its guarantee, or else, if
    /// it may be borrowed, to any; each time to the one with the least in flight for its weight, and equals take turns. When a
    /// queue is full, the call is rejected at once with [`RejectReason::QueueFull`]; when the time is over, with
    /// [`RejectReason::TooLong`].
    ///
    /// A call that is dropped leaves the queue, and passes on a slot that it got and did not take.
    ///
    /// # Panics
    ///
    /// Without a [sleeper](super::FairConcurrencyBuilder::sleeper), which only happens without the feature `tokio`.
    pub async fn acquire<'a>(&self, tenant: impl Into<Key<'a>>, within: Duration) -> Result<Permit, Rejected> {
        self.acquire_for(None, &tenant.into(), within).await
    }

    /// The same for a call of a caller: the callers of a tenant take turns.
    pub(crate) async fn acquire_for(
        &self,
        caller: Option<u64>,
        tenant: &Key<'_>,
        within: Duration,
    ) -> Result<Permit, Rejected> {
        let sleeper =
            self.inner.sleeper.as_ref().expect("a sleeper to wait with: the feature `tokio`, or the builder's");
        let deadline = sleeper.now().saturating_add(within);
        let position = match self.inner.enter_or_queue(tenant, caller)? {
            Arrival::Admitted(permit) => return Ok(permit),
            Arrival::Queued(position) => position,
        };
        let mut left = within;
        loop {
            // A tenant that goes leaves its reserve, and there may be no other call to notice it.
            let span = left.min(self.inner.lock().until_next_absent(sleeper.now()));
            let in_time = complete_before(sleeper.sleep(span), position.served()).await.is_some();
            if in_time || self.inner.is_served(&position) {
                return Ok(position.into_permit());
            }
            // The time that was slept counts, too: a clock that is set back prolongs no wait.
            left = (left - span).min(deadline.since(sleeper.now()));
            if left.is_zero() {
                let rejected = |inner: &Inner| {
                    inner.with(|scheduler, _| inner.rejected(scheduler, position.id, RejectReason::TooLong))
                };
                return Err(rejected(&self.inner));
            }
        }
    }
}

/// The result of a call that arrives: a permit, or a position in the queue.
enum Arrival {
    Admitted(Permit),
    Queued(QueuePosition),
}

/// A position in the queue of a tenant, left when dropped.
struct QueuePosition {
    inner: Arc<Inner>,
    id: usize,
    place: Place,
    /// Whether the slot has become a permit, which releases it itself.
    became_permit: bool,
}

impl Inner {
    fn enter_or_queue(self: &Arc<Self>, tenant: &Key<'_>, caller: Option<u64>) -> Result<Arrival, Rejected> {
        self.with(|scheduler, now| {
            let id = scheduler.arrive(&tenant.to_text(), now);
            if scheduler.enter(id) {
                return Ok(Arrival::Admitted(self.permit(scheduler, id, now)));
            }
            let place = scheduler.enqueue(id, caller);
            let place = place.ok_or_else(|| self.rejected(scheduler, id, RejectReason::QueueFull))?;
            Ok(Arrival::Queued(QueuePosition { inner: Arc::clone(self), id, place, became_permit: false }))
        })
    }

    /// Returns whether the position got its slot, after removing absent tenants.
    fn is_served(&self, position: &QueuePosition) -> bool {
        self.with(|scheduler, _| !scheduler.is_waiting(position.id, position.place))
    }
}

impl QueuePosition {
    /// Ends when the position gets its slot.
    async fn served(&self) {
        poll_fn(|context| {
            let waker = context.waker().clone();
            let (waits, _before) = {
                let mut scheduler = self.inner.lock();
                let before = scheduler.set_waker(self.id, self.place, waker);
                (scheduler.is_waiting(self.id, self.place), before)
            };
            if waits { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    fn into_permit(mut self) -> Permit {
        self.became_permit = true;
        self.inner.with(|scheduler, now| self.inner.permit(scheduler, self.id, now))
    }
}

impl Drop for QueuePosition {
    fn drop(&mut self) {
        if !self.became_permit {
            drop(self.inner.with(|scheduler, now| scheduler.leave_queue(self.id, self.place, now)));
        }
    }
}
