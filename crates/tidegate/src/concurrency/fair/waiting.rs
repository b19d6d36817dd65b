//! Waiting for a slot.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::Key;

use super::{Fair, Shared};
use crate::clock::before;
use crate::concurrency::{Permit, Refused, Why};

impl Fair {
    /// A permit for a tenant, waited for if need be, for `within` at most.
    ///
    /// Those of one tenant are served first come, first served. Between tenants, a slot that comes free goes to one below
    /// its guarantee, or else, if it may be borrowed, to any; each time to the one with the least in flight for its weight,
    /// and equals take turns. When as many wait as may, the answer is [`Why::QueueFull`] at once; when the time is over,
    /// [`Why::TooLong`].
    ///
    /// A call that is dropped gives up its place, and hands on a slot that it was given and did not take.
    ///
    /// # Panics
    ///
    /// When there is nothing to wait with: without the feature `tokio`, the builder has to be given a
    /// [sleeper](super::FairBuilder::sleeper).
    pub async fn acquire<'a>(&self, tenant: impl Into<Key<'a>>, within: Duration) -> Result<Permit, Refused> {
        let tenant = tenant.into();
        let sleeper =
            self.shared.sleeper.as_ref().expect("a sleeper to wait with: the feature `tokio`, or the builder's");
        let deadline = sleeper.now().saturating_add(within);
        let place = match self.shared.enter_or_join(&tenant)? {
            Entry::Permit(permit) => return Ok(permit),
            Entry::Place(place) => place,
        };
        let mut left = within;
        loop {
            // A tenant that goes leaves its reserve, and nobody else may be there to notice.
            let span = left.min(self.shared.lock().next_look(sleeper.now()));
            let in_time = before(sleeper.sleep(span), place.turn()).await.is_some();
            if in_time || self.shared.has_turn(&place) {
                return Ok(place.into_permit());
            }
            // What was slept counts, too: a clock that is set back makes nobody wait for longer.
            left = (left - span).min(deadline.since(sleeper.now()));
            if left.is_zero() {
                return Err(self.shared.with(|state, _| self.shared.refused(state, place.id, Why::TooLong)));
            }
        }
    }
}

enum Entry {
    Permit(Permit),
    Place(Place),
}

/// A place in the queue of a tenant, given up when dropped.
struct Place {
    shared: Arc<Shared>,
    id: usize,
    number: u64,
    /// Whether the slot has become a permit, which gives it back itself.
    taken: bool,
}

impl Shared {
    fn enter_or_join(self: &Arc<Self>, tenant: &Key<'_>) -> Result<Entry, Refused> {
        self.with(|state, now| {
            let id = state.arrive(&tenant.to_text(), now);
            if state.enter(id) {
                return Ok(Entry::Permit(self.permit(state, id, now)));
            }
            let number = state.join(id).ok_or_else(|| self.refused(state, id, Why::QueueFull))?;
            Ok(Entry::Place(Place { shared: Arc::clone(self), id, number, taken: false }))
        })
    }

    /// Whether somebody's turn has come, now that it is looked who is gone.
    fn has_turn(&self, place: &Place) -> bool {
        self.with(|state, _| !state.is_waiting(place.id, place.number))
    }
}

impl Place {
    /// Ends when there is a slot for it.
    async fn turn(&self) {
        poll_fn(|context| {
            let waker = context.waker().clone();
            let (waits, _before) = {
                let mut state = self.shared.lock();
                let before = state.tell(self.id, self.number, waker);
                (state.is_waiting(self.id, self.number), before)
            };
            if waits { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    fn into_permit(mut self) -> Permit {
        self.taken = true;
        self.shared.with(|state, now| self.shared.permit(state, self.id, now))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.taken {
            drop(self.shared.with(|state, now| state.give_up(self.id, self.number, now)));
        }
    }
}
