//! `Concurrency`: one limit for all callers of a process.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::in_flight::InFlightCounter;
use super::permit::{HoldTime, PermitSource, PermitTicket};
use super::{Completion, Controller, Permit, RejectReason, Rejected, Sample};
use crate::clock::{Clock, SystemClock};

/// A limit on how many may be in flight at once, for all callers together. Cheap to clone; clones share the limit.
#[derive(Clone)]
pub struct Concurrency {
    pool: Arc<Pool>,
    /// Percent of the limit that each priority leaves to the next.
    reserve: u8,
}

struct Pool {
    in_flight: InFlightCounter,
    /// The controller's last answer, or the fixed limit.
    limit: AtomicU32,
    controller: Option<Mutex<Box<dyn Controller>>>,
    hold_time: HoldTime,
    /// The hold time of successful work only: how long a client that leaves early would have had to wait.
    success_time: HoldTime,
    clock: Arc<dyn Clock>,
}

impl Concurrency {
    /// Creates a fixed limit; 0 counts as 1.
    pub fn fixed(limit: u32) -> Self {
        Concurrency::new(limit.max(1), None)
    }

    /// Creates a limit that a controller adapts.
    pub fn adaptive(controller: impl Controller + 'static) -> Self {
        Concurrency::new(controller.limit().max(1), Some(Mutex::new(Box::new(controller))))
    }

    fn new(limit: u32, controller: Option<Mutex<Box<dyn Controller>>>) -> Self {
        let pool = Pool {
            in_flight: InFlightCounter::default(),
            limit: AtomicU32::new(limit),
            controller,
            hold_time: HoldTime::default(),
            success_time: HoldTime::default(),
            clock: Arc::new(SystemClock),
        };
        Concurrency { pool: Arc::new(pool), reserve: 0 }
    }

    /// Sets a reserve: [`Priority::Default`] leaves `percent` of the limit to [`Priority::Critical`], and
    /// [`Priority::Sheddable`] leaves as much again to `Default`. Defaults to 0; more than 100 counts as 100. Clones of this one have
    /// the same reserve.
    #[must_use]
    pub fn reserve(mut self, percent: u8) -> Self {
        self.reserve = percent.min(100);
        self
    }

    /// Sets the clock, for tests and simulations. Defaults to the system's clock.
    ///
    /// # Panics
    ///
    /// After it was cloned or has handed out a permit.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        let unused =
            Arc::get_mut(&mut self.pool).expect("the clock is set before the first clone and the first permit");
        unused.clock = Arc::new(clock);
        self
    }

    /// Returns a permit of [`Priority::Default`], if there is one.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit, Rejected> {
        self.try_acquire_as(Priority::Default)
    }

    /// Returns a permit of a priority, if there is one.
    #[inline]
    pub fn try_acquire_as(&self, priority: Priority) -> Result<Permit, Rejected> {
        let pool = &*self.pool;
        let limit = self.limit();
        let ceiling = priority.ceiling(limit, self.reserve);
        match pool.in_flight.enter(ceiling) {
            Ok(in_flight) => {
                let in_flight_of_limit = if ceiling == limit { in_flight } else { scale(in_flight, ceiling, limit) };
                let ticket = PermitTicket { started: pool.clock.now(), in_flight, in_flight_of_limit };
                Ok(Permit::new(Arc::clone(&self.pool) as Arc<dyn PermitSource>, ticket))
            }
            Err(_) => {
                let retry_after = pool.hold_time.retry_after();
                Err(Rejected { reason: RejectReason::Busy, limit, retry_after, shared: true })
            }
        }
    }

    /// Returns how many are in flight.
    pub fn in_flight(&self) -> u32 {
        self.pool.in_flight.count()
    }

    /// Returns how many may be in flight.
    #[inline]
    pub fn limit(&self) -> u32 {
        self.pool.limit.load(Ordering::Relaxed)
    }
}

impl PermitSource for Pool {
    fn release(&self, ticket: &PermitTicket, completion: Completion) {
        self.in_flight.leave();
        if completion == Completion::Ignored {
            return;
        }
        let PermitTicket { started, in_flight_of_limit, .. } = *ticket;
        let Some(controller) = &self.controller else {
            return self.hold_time.record(started, self.clock.now());
        };
        let mut controller = controller.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Under the lock: the controller gets samples in the order of these times.
        let ended = self.clock.now();
        self.hold_time.record(started, ended);
        if completion == Completion::Success {
            self.success_time.record(started, ended);
        }
        let dropped = completion == Completion::Dropped;
        controller.observe(&Sample { started, ended, in_flight: in_flight_of_limit, dropped });
        // Under the lock: an older limit must not overwrite a newer one.
        self.limit.store(controller.limit().max(1), Ordering::Relaxed);
    }

    /// A client that leaves sooner than successful work usually takes is no sign of overload. Otherwise clients that change
    /// their minds, or pretend to, would bring the limit of a healthy server to its minimum.
    #[cfg(feature = "http")]
    fn release_abandoned(&self, ticket: &PermitTicket) {
        let took = self.clock.now().since(ticket.started);
        // Not a multiple of the average: under overload, the average approaches the longest wait that clients accept.
        let is_early = self.success_time.average().is_some_and(|average| took < average);
        self.release(ticket, if is_early { Completion::Ignored } else { Completion::Dropped });
    }
}

/// Scales a count under a ceiling to the whole limit, rounded up.
fn scale(in_flight: u32, ceiling: u32, limit: u32) -> u32 {
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

/// The importance of a piece of work. Under a [reserve](Concurrency::reserve), each priority leaves some of the limit
/// to the higher ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Priority {
    /// Rejected first: work that is tried again anyway, such as a prefetch or a batch.
    Sheddable,
    /// Ordinary work.
    #[default]
    Default,
    /// May use the whole limit: health checks, logins, payments.
    Critical,
}

impl Priority {
    /// All priorities, the least important first.
    pub const ALL: [Priority; 3] = [Priority::Sheddable, Priority::Default, Priority::Critical];

    /// Returns the name in configs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Priority::Sheddable => "sheddable",
            Priority::Default => "default",
            Priority::Critical => "critical",
        }
    }

    /// Returns how much of `limit` this priority may use when each leaves `reserve` percent of it, rounded up, to the next.
    /// At least 1, so that a small limit does not exclude a priority forever.
    fn ceiling(self, limit: u32, reserve: u8) -> u32 {
        let steps = match self {
            Priority::Critical => 0,
            Priority::Default => 1,
            Priority::Sheddable => 2,
        };
        let left = (u64::from(limit) * u64::from(reserve)).div_ceil(100) * steps;
        limit.saturating_sub(u32::try_from(left).unwrap_or(u32::MAX)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_priority_leaves_the_reserve_to_the_next() {
        let ceilings = |limit, reserve| Priority::ALL.map(|priority| priority.ceiling(limit, reserve));
        assert_eq!(ceilings(100, 0), [100, 100, 100]);
        assert_eq!(ceilings(100, 10), [80, 90, 100]);
        assert_eq!(ceilings(15, 10), [11, 13, 15], "rounded up");
        assert_eq!(ceilings(1, 10), [1, 1, 1], "no priority is excluded");
        assert_eq!(ceilings(100, 50), [1, 50, 100]);
        assert_eq!(ceilings(u32::MAX, 100), [1, 1, u32::MAX]);
    }
}
