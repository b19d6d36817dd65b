//! `FairConcurrency`: one concurrency limit that tenants share by weight.

mod acquire;
mod scheduler;
mod share;
mod tenants;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::{Key, Timestamp, millis, seconds};

use super::permit::{HoldTime, PermitSource, PermitTicket};
use super::{Completion, Permit, RejectReason, Rejected};
use crate::clock::{Clock, Sleeper, SteadyClock};
use scheduler::Scheduler;

/// A limit on how many may be in flight at once, which tenants share by weight. Cheap to clone; clones share the limit.
///
/// A tenant is *present* from its first request until it has had no request, permit or waiting caller for ten seconds
/// ([`idle_after`](FairConcurrencyBuilder::idle_after)). Each present tenant is guaranteed its part of the limit,
/// `weight * limit / weights of all present tenants`, rounded down. The rest can be borrowed: the parts of absent tenants, and
/// what rounding leaves.
///
/// - A tenant below its guarantee is rejected only while no slot is free. That takes tenants that borrowed before it arrived,
///   or before its guarantee grew: they keep their slots, and get no more until it has its part.
/// - The unused guarantee of a present tenant stays reserved. No other tenant can borrow it until the tenant is gone.
/// - No tenant is rejected while there is a free slot that is not reserved for another.
///
/// ```
/// use tidegate::concurrency::FairConcurrency;
///
/// let fair = FairConcurrency::builder(10).weight("gold", 4).build(); // and 1 for every other tenant
/// let free: Vec<_> = (0..10).map_while(|_| fair.try_acquire("free").ok()).collect();
/// assert_eq!(free.len(), 10); // alone, it may have every slot
///
/// assert!(fair.try_acquire("gold").is_err()); // gold is present: 8 slots are its own from now on
/// drop(free);
/// let free: Vec<_> = (0..10).map_while(|_| fair.try_acquire("free").ok()).collect();
/// assert_eq!(free.len(), 2);
/// assert!(fair.try_acquire("gold").is_ok());
/// ```
///
/// Tenants must be known, such as accounts: a client that can invent names is as many tenants as it likes, and shrinks the
/// part of every other tenant. The guide, `docs/book/src/explanation/fairness.md` in the repository, tells what to do about it.
#[derive(Clone)]
pub struct FairConcurrency {
    inner: Arc<Inner>,
}

struct Inner {
    scheduler: Mutex<Scheduler>,
    hold_time: HoldTime,
    clock: Arc<dyn Clock>,
    /// The clock again, if it can sleep.
    sleeper: Option<Arc<dyn Sleeper>>,
}

/// What a tenant has and is guaranteed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// How many it can have in flight, whatever other tenants do.
    pub guarantee: u32,
    /// How many it has in flight.
    pub in_flight: u32,
    /// How many of its callers wait.
    pub waiting: usize,
}

impl FairConcurrency {
    /// Returns a builder for a limit; 0 counts as 1.
    pub fn builder(limit: u32) -> FairConcurrencyBuilder {
        let settings = Settings {
            weights: HashMap::new(),
            default_weight: 1,
            max_tenants: 1_024,
            queue: 64,
            total_queue: 1_024,
            idle_after: seconds(10),
        };
        FairConcurrencyBuilder { limit: limit.max(1), settings, sleeper: None }
    }

    /// Returns a permit for a tenant, if there is one. It never overtakes a waiting caller.
    pub fn try_acquire<'a>(&self, tenant: impl Into<Key<'a>>) -> Result<Permit, Rejected> {
        let tenant = tenant.into();
        self.inner.with(|scheduler, now| {
            let id = scheduler.arrive(&tenant.to_text(), now);
            if scheduler.enter(id) {
                Ok(self.inner.permit(scheduler, id, now))
            } else {
                Err(self.inner.rejected(scheduler, id, RejectReason::Busy))
            }
        })
    }

    /// Returns the share of a tenant, if it is present. For tenants that share one place, it is that of all of them.
    pub fn share<'a>(&self, tenant: impl Into<Key<'a>>) -> Option<Share> {
        let tenant = tenant.into();
        self.inner.with(|scheduler, _| {
            let tenant = &scheduler.tenants[scheduler.find(&tenant.to_text())?];
            let (guarantee, in_flight) = (tenant.guarantee, tenant.in_flight);
            Some(Share { guarantee, in_flight, waiting: tenant.waiting.len() })
        })
    }

    /// Returns how many tenants are present.
    pub fn tenants(&self) -> usize {
        self.inner.with(|scheduler, _| scheduler.tenants.len())
    }

    /// Returns how many are in flight, of all tenants.
    pub fn in_flight(&self) -> u32 {
        self.inner.lock().in_flight
    }

    /// Returns how many callers wait, of all tenants.
    pub fn waiting(&self) -> usize {
        self.inner.lock().waiting
    }

    /// Returns whether there is a sleeper to wait with.
    pub(crate) fn can_wait(&self) -> bool {
        self.inner.sleeper.is_some()
    }

    /// Returns how many may be in flight.
    pub fn limit(&self) -> u32 {
        self.inner.lock().limit
    }

    /// Changes the limit, for example to that of a [`Controller`](super::Controller); 0 counts as 1. Under a smaller limit,
    /// permits stay valid, and no new one is handed out until fewer are in flight.
    pub fn set_limit(&self, limit: u32) {
        self.inner.with(|scheduler, _| scheduler.set_limit(limit.max(1)));
    }
}

impl Inner {
    /// Changes the state as of now, then wakes the callers that got a slot. A waker may run any code, so nothing is locked
    /// then.
    fn with<T>(&self, change: impl FnOnce(&mut Scheduler, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let (result, woken) = {
            let mut scheduler = self.lock();
            scheduler.remove_absent(now);
            let result = change(&mut scheduler, now);
            (result, std::mem::take(&mut scheduler.woken))
        };
        woken.into_iter().for_each(|waker| waker.wake());
        result
    }

    fn lock(&self) -> MutexGuard<'_, Scheduler> {
        self.scheduler.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Creates the permit for a slot that a tenant has.
    fn permit(self: &Arc<Self>, scheduler: &Scheduler, id: usize, now: Timestamp) -> Permit {
        let ticket = PermitTicket::new(now, scheduler.in_flight);
        Permit::new(Arc::new(TenantPermitSource { inner: Arc::clone(self), id }), ticket)
    }

    /// Creates a rejection. A tenant that has its guarantee is rejected because of that; any other because of the others.
    fn rejected(&self, scheduler: &Scheduler, id: usize, reason: RejectReason) -> Rejected {
        let tenant = &scheduler.tenants[id];
        let shared = tenant.in_flight < tenant.guarantee.max(1);
        let limit = if shared { scheduler.limit } else { tenant.in_flight };
        Rejected { reason, limit, retry_after: self.hold_time.retry_after(), shared }
    }
}

/// The source of a tenant's permits. The tenant is present, and keeps its id, while one of them is in flight.
struct TenantPermitSource {
    inner: Arc<Inner>,
    id: usize,
}

impl PermitSource for TenantPermitSource {
    fn release(&self, ticket: &PermitTicket, completion: Completion) {
        let ended = self.inner.with(|scheduler, now| {
            scheduler.leave(self.id, now);
            now
        });
        if completion != Completion::Ignored {
            self.inner.hold_time.record(ticket.started, ended);
        }
    }
}

impl fmt::Debug for FairConcurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheduler = self.inner.lock();
        f.debug_struct("FairConcurrency")
            .field("limit", &scheduler.limit)
            .field("in_flight", &scheduler.in_flight)
            .field("waiting", &scheduler.waiting)
            .field("tenants", &scheduler.tenants.len())
            .finish_non_exhaustive()
    }
}

/// The settings of a [`FairConcurrency`], from [`FairConcurrency::builder`].
#[must_use = "tenants share once `build` is called"]
pub struct FairConcurrencyBuilder {
    limit: u32,
    settings: Settings,
    sleeper: Option<Arc<dyn Sleeper>>,
}

/// The settings that never change.
struct Settings {
    /// By the text of the key.
    weights: HashMap<String, u32>,
    default_weight: u32,
    max_tenants: usize,
    queue: usize,
    total_queue: usize,
    idle_after: Duration,
}

impl FairConcurrencyBuilder {
    /// Sets the weight of a tenant; 0 counts as 1. A tenant with a weight of its own always has a place of its own.
    pub fn weight<'a>(mut self, tenant: impl Into<Key<'a>>, weight: u32) -> Self {
        self.settings.weights.insert(tenant.into().to_text().into_owned(), weight.max(1));
        self
    }

    /// Sets the weight of all other tenants. Defaults to 1; 0 counts as 1.
    pub fn default_weight(mut self, weight: u32) -> Self {
        self.settings.default_weight = weight.max(1);
        self
    }

    /// Sets how many tenants without a weight have a place of their own. Defaults to 1,024. Further tenants share one more
    /// place, with the default weight. So invented names cost neither unbounded memory nor the slots of other tenants.
    pub fn max_tenants(mut self, tenants: usize) -> Self {
        self.settings.max_tenants = tenants;
        self
    }

    /// Sets how many callers of one tenant may wait. Defaults to 64.
    pub fn queue(mut self, waiting: usize) -> Self {
        self.settings.queue = waiting;
        self
    }

    /// Sets how many callers of all tenants may wait. Defaults to 1,024. Beyond that, each tenant may have one.
    pub fn total_queue(mut self, waiting: usize) -> Self {
        self.settings.total_queue = waiting;
        self
    }

    /// Sets how long an idle tenant keeps its reserve. Defaults to 10 seconds; the minimum is a millisecond.
    pub fn idle_after(mut self, span: Duration) -> Self {
        self.settings.idle_after = span.max(millis(1));
        self
    }

    /// Sets the clock, and the timer that [`FairConcurrency::acquire`] waits with. Defaults to tokio's timer with the feature
    /// `tokio`, and to none without it.
    pub fn sleeper(mut self, sleeper: impl Sleeper + 'static) -> Self {
        self.sleeper = Some(Arc::new(sleeper));
        self
    }

    /// Creates the limit.
    pub fn build(self) -> FairConcurrency {
        #[cfg(feature = "tokio")]
        let default_sleeper: Option<Arc<dyn Sleeper>> = Some(Arc::new(crate::clock::SteadySleeper));
        #[cfg(not(feature = "tokio"))]
        let default_sleeper = None;
        let sleeper = self.sleeper.or(default_sleeper);
        let clock: Arc<dyn Clock> = match &sleeper {
            Some(sleeper) => Arc::clone(sleeper) as Arc<dyn Clock>,
            None => Arc::new(SteadyClock),
        };
        let scheduler = Mutex::new(Scheduler::new(self.limit, self.settings));
        FairConcurrency { inner: Arc::new(Inner { scheduler, hold_time: HoldTime::default(), clock, sleeper }) }
    }
}
