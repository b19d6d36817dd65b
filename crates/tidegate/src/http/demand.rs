//! What a request asks of its limits.

#[cfg(all(feature = "macros", feature = "tower"))]
use tidegate_core::Timestamp;

use super::RateLimit;
#[cfg(all(feature = "macros", feature = "tower"))]
use crate::clock::{Clock, SystemClock};
use crate::enforce::{Caller, Enforcer, Outcome, Step};

/// What a request asks of its limits. It goes without the limits themselves, because most requests are decided about where
/// they stand: a share of the limits for each of them is a counter that all threads would write to.
#[derive(Debug)]
pub(crate) struct Demand {
    /// The limits that were picked for it.
    pub(super) picked: Option<Enforcer>,
    pub(super) caller: Option<Caller<'static>>,
    pub(super) cost: u64,
    /// When it was begun with, for giving back.
    #[cfg(all(feature = "macros", feature = "tower"))]
    pub(super) begun: Timestamp,
}

impl Demand {
    /// That of a caller who is as most are. What may be given back is never asked for like this.
    #[cfg(feature = "tower")]
    pub(super) fn of(caller: Caller<'static>) -> Self {
        Demand {
            picked: None,
            caller: Some(caller),
            cost: 1,
            #[cfg(feature = "macros")]
            begun: SystemClock.now(),
        }
    }

    /// Whether the request may go on, without waiting. None when it has to be waited for; nothing was done then.
    pub(crate) fn decide_now(&self, rate_limit: &RateLimit) -> Option<Outcome> {
        self.now(rate_limit, rate_limit.first_step())
    }

    pub(super) fn now(&self, rate_limit: &RateLimit, step: Step) -> Option<Outcome> {
        let enforcer = self.enforcer(rate_limit);
        match &self.caller {
            Some(caller) => enforcer.ask_now(caller, self.cost, step),
            None => Some(enforcer.without_key()),
        }
    }

    /// The limits that it meets.
    pub(super) fn enforcer<'a>(&'a self, rate_limit: &'a RateLimit) -> &'a Enforcer {
        let enforcer = rate_limit.enforcer().or(self.picked.as_ref());
        enforcer.expect("what is not the same for all requests was picked for this one")
    }
}
