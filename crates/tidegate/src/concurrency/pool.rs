//! One limit for everybody.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::counter::Counter;
use super::held::Held;
use super::permit::{Source, Ticket};
use super::{Controller, Permit, Priority, Refused, Sample, Why, Work};
use crate::clock::{Clock, SystemClock};

/// How many may be in flight at once, for everybody together. Cheap to clone: clones hand out the same permits.
#[derive(Clone)]
pub struct Concurrency {
    pool: Arc<Pool>,
}

struct Pool {
    in_flight: Counter,
    /// What the controller last said, or the number it was built with.
    limit: AtomicU32,
    controller: Option<Mutex<Box<dyn Controller>>>,
    /// Percent of the limit that each class of priority leaves to the next.
    reserve: u8,
    held: Held,
    /// The same of work that was done, for the controller's sake: how long who gives up would have had to wait.
    done: Held,
    clock: Arc<dyn Clock>,
}

impl Concurrency {
    /// At most `limit` at once; 0 counts as 1.
    pub fn fixed(limit: u32) -> Self {
        Concurrency::new(limit.max(1), None)
    }

    /// As many at once as a controller says.
    pub fn adaptive(controller: impl Controller + 'static) -> Self {
        Concurrency::new(controller.limit().max(1), Some(Mutex::new(Box::new(controller))))
    }

    fn new(limit: u32, controller: Option<Mutex<Box<dyn Controller>>>) -> Self {
        let pool = Pool {
            in_flight: Counter::default(),
            limit: AtomicU32::new(limit),
            controller,
            reserve: 0,
            held: Held::default(),
            done: Held::default(),
            clock: Arc::new(SystemClock),
        };
        Concurrency { pool: Arc::new(pool) }
    }

    /// The same with a reserve: ordinary work leaves `percent` of the limit to critical work, and work that can be shed
    /// leaves as much again to ordinary work. None unless said otherwise; more than 100 counts as 100.
    ///
    /// # Panics
    ///
    /// When it was cloned or has handed out a permit: this is part of making it.
    #[must_use]
    pub fn reserve(mut self, percent: u8) -> Self {
        self.building().reserve = percent.min(100);
        self
    }

    /// The same on another clock, for tests and simulations.
    ///
    /// # Panics
    ///
    /// When it was cloned or has handed out a permit: this is part of making it.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.building().clock = Arc::new(clock);
        self
    }

    /// A permit for ordinary work, if there is one.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit, Refused> {
        self.try_acquire_as(Priority::Default)
    }

    /// A permit for work that matters that much, if there is one.
    #[inline]
    pub fn try_acquire_as(&self, priority: Priority) -> Result<Permit, Refused> {
        let pool = &*self.pool;
        let limit = self.limit();
        let ceiling = priority.ceiling(limit, pool.reserve);
        match pool.in_flight.enter(ceiling) {
            Ok(in_flight) => {
                let of_all = if ceiling == limit { in_flight } else { share(in_flight, ceiling, limit) };
                let ticket = Ticket { started: pool.clock.now(), in_flight, of_all };
                Ok(Permit::new(Arc::clone(&self.pool) as Arc<dyn Source>, ticket))
            }
            Err(_) => Err(Refused { why: Why::Busy, limit, retry_after: pool.held.usual(), shared: true }),
        }
    }

    /// How many are in flight.
    pub fn in_flight(&self) -> u32 {
        self.pool.in_flight.count()
    }

    /// How many may be.
    #[inline]
    pub fn limit(&self) -> u32 {
        self.pool.limit.load(Ordering::Relaxed)
    }

    fn building(&mut self) -> &mut Pool {
        Arc::get_mut(&mut self.pool).expect("it is not in use yet")
    }
}

impl Source for Pool {
    fn take_back(&self, ticket: &Ticket, work: Work) {
        self.in_flight.leave();
        if work == Work::Ignore {
            return;
        }
        let Ticket { started, of_all, .. } = *ticket;
        let Some(controller) = &self.controller else {
            return self.held.learn(started, self.clock.now());
        };
        let mut controller = controller.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Under the lock: a controller is told in the order of these times.
        let ended = self.clock.now();
        self.held.learn(started, ended);
        if work == Work::Done {
            self.done.learn(started, ended);
        }
        controller.observe(&Sample { started, ended, in_flight: of_all, dropped: work == Work::Dropped });
        // Before the lock is let go, so that an older limit does not come after a newer one.
        self.limit.store(controller.limit().max(1), Ordering::Relaxed);
    }

    /// Who leaves sooner than work usually takes has not left because it took too long. Otherwise clients that change their
    /// minds, and those that only pretend to, would bring the limit to its least on a server that is well.
    #[cfg(feature = "http")]
    fn take_back_abandoned(&self, ticket: &Ticket) {
        let took = self.clock.now().since(ticket.started);
        // Not a multiple of it: what clients wait for at most is what the usual comes to when there is too much.
        let is_early = self.done.known().is_some_and(|usual| took < usual);
        self.take_back(ticket, if is_early { Work::Ignore } else { Work::Dropped });
    }
}

/// What so many of a ceiling are of the whole limit, rounded up.
fn share(in_flight: u32, ceiling: u32, limit: u32) -> u32 {
    let of_limit = (u64::from(in_flight) * u64::from(limit)).div_ceil(u64::from(ceiling.max(1)));
    of_limit.min(limit.into()) as u32
}

impl fmt::Debug for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Concurrency")
            .field("limit", &self.limit())
            .field("in_flight", &self.in_flight())
            .field("adaptive", &self.pool.controller.is_some())
            .finish_non_exhaustive()
    }
}
