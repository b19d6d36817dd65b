//! Tenants that share a limit by weight.

mod builder;
mod present;
mod share;
mod state;
mod tenant;
mod waiting;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::{Key, Timestamp};

pub use builder::FairBuilder;
use state::State;

use super::held::Held;
use super::permit::{Source, Ticket};
use super::{Permit, Refused, Why, Work};
use crate::clock::{Clock, Sleeper};

/// How many may be in flight at once, shared by tenants with weights. Cheap to clone: clones share the same slots.
///
/// A tenant is *present* from its first ask until it has neither asked nor held nor wanted anything for ten seconds
/// ([`idle_after`](FairBuilder::idle_after)). Each tenant who is present is guaranteed its part of the limit,
/// `weight * limit / weights of all who are present`, rounded down. What nobody is guaranteed can be borrowed: the parts of those
/// who are absent, and what rounding leaves.
///
/// - A tenant below its guarantee is refused only while nothing at all is free. That takes others who borrowed before it
///   came, or before its guarantee grew: they keep what they have, and get no more until it has its part.
/// - A tenant that is present and uses less than its guarantee keeps the rest reserved. Nobody can borrow it until the
///   tenant is gone.
/// - Nobody is refused while there is a slot that is not reserved for another.
///
/// ```
/// use tidegate::concurrency::Fair;
///
/// let fair = Fair::builder(10).weight("gold", 4).build(); // and 1 for everybody else
/// let free: Vec<_> = (0..10).map_while(|_| fair.try_acquire("free").ok()).collect();
/// assert_eq!(free.len(), 10); // alone, it may have everything
///
/// assert!(fair.try_acquire("gold").is_err()); // gold has come: 8 are its own from now on
/// drop(free);
/// let free: Vec<_> = (0..10).map_while(|_| fair.try_acquire("free").ok()).collect();
/// assert_eq!(free.len(), 2);
/// assert!(fair.try_acquire("gold").is_ok());
/// ```
///
/// Tenants are to be known, such as accounts: whoever can make up names is as many tenants as it likes, and everybody's
/// part shrinks by that. The guide, `docs/fairness.md` in the repository, says what to do about it.
#[derive(Clone)]
pub struct Fair {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    held: Held,
    clock: Arc<dyn Clock>,
    /// The same as the clock, if it can be waited on.
    sleeper: Option<Arc<dyn Sleeper>>,
}

/// What a tenant has and can count on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// How many it can have in flight whatever the others do.
    pub guarantee: u32,
    /// How many it has.
    pub in_flight: u32,
    /// How many of it wait.
    pub waiting: usize,
}

impl Fair {
    /// At most `limit` at once, to be shared; 0 counts as 1.
    pub fn builder(limit: u32) -> FairBuilder {
        FairBuilder::new(limit)
    }

    /// A permit for a tenant, if there is one for it. It overtakes nobody who waits.
    pub fn try_acquire<'a>(&self, tenant: impl Into<Key<'a>>) -> Result<Permit, Refused> {
        let tenant = tenant.into();
        self.shared.with(|state, now| {
            let id = state.arrive(&tenant.to_text(), now);
            if state.enter(id) {
                Ok(self.shared.permit(state, id, now))
            } else {
                Err(self.shared.refused(state, id, Why::Busy))
            }
        })
    }

    /// What a tenant has, if it is present. Those who share one place see what all of them have.
    pub fn share<'a>(&self, tenant: impl Into<Key<'a>>) -> Option<Share> {
        let tenant = tenant.into();
        self.shared.with(|state, _| {
            let tenant = &state.present[state.find(&tenant.to_text())?];
            let (guarantee, in_flight) = (tenant.guarantee, tenant.in_flight);
            Some(Share { guarantee, in_flight, waiting: tenant.waiting.len() })
        })
    }

    /// How many tenants are present.
    pub fn tenants(&self) -> usize {
        self.shared.with(|state, _| state.present.len())
    }

    /// How many are in flight, of all tenants.
    pub fn in_flight(&self) -> u32 {
        self.shared.lock().in_flight
    }

    /// How many wait, of all tenants.
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting
    }

    /// Whether there is something to wait with.
    pub(crate) fn can_wait(&self) -> bool {
        self.shared.sleeper.is_some()
    }

    /// How many may be in flight.
    pub fn limit(&self) -> u32 {
        self.shared.lock().limit
    }

    /// Another limit, such as what a [`Controller`](super::Controller) says; 0 counts as 1. With a smaller one, those in
    /// flight stay, and nothing new starts until there are fewer.
    pub fn set_limit(&self, limit: u32) {
        self.shared.with(|state, _| state.set_limit(limit.max(1)));
    }
}

impl Shared {
    /// Does something with the state as it is now, and then wakes whoever has got a slot by that. Wakers run whatever they
    /// like, so nothing is locked when they do.
    fn with<T>(&self, change: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let (result, woken) = {
            let mut state = self.lock();
            state.look(now);
            let result = change(&mut state, now);
            (result, std::mem::take(&mut state.woken))
        };
        woken.into_iter().for_each(|waker| waker.wake());
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The permit of a slot that a tenant has.
    fn permit(self: &Arc<Self>, state: &State, id: usize, now: Timestamp) -> Permit {
        let ticket = Ticket::new(now, state.in_flight);
        Permit::new(Arc::new(OfTenant { shared: Arc::clone(self), id }), ticket)
    }

    /// Whoever has its part is held back by that. Whoever has not is held back by the others.
    fn refused(&self, state: &State, id: usize, why: Why) -> Refused {
        let tenant = &state.present[id];
        let shared = tenant.in_flight < tenant.guarantee.max(1);
        let limit = if shared { state.limit } else { tenant.in_flight };
        Refused { why, limit, retry_after: self.held.usual(), shared }
    }
}

/// Where the permits of a tenant go back to. It is present, and so at its place, as long as one is out.
struct OfTenant {
    shared: Arc<Shared>,
    id: usize,
}

impl Source for OfTenant {
    fn take_back(&self, ticket: &Ticket, work: Work) {
        let ended = self.shared.with(|state, now| {
            state.leave(self.id, now);
            now
        });
        if work != Work::Ignore {
            self.shared.held.learn(ticket.started, ended);
        }
    }
}

impl fmt::Debug for Fair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Fair")
            .field("limit", &state.limit)
            .field("in_flight", &state.in_flight)
            .field("waiting", &state.waiting)
            .field("tenants", &state.present.len())
            .finish_non_exhaustive()
    }
}
