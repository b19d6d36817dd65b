//! A request on its way through its limits.

#[cfg(all(feature = "macros", feature = "tower"))]
use std::net::IpAddr;

use http::{Extensions, HeaderMap, StatusCode};

use super::RateLimit;
use super::demand::Demand;
#[cfg(all(feature = "macros", feature = "tower"))]
use crate::clock::{Clock, SystemClock};
use crate::concurrency::Priority;
#[cfg(all(feature = "macros", feature = "tower"))]
use crate::enforce::Ruling;
use crate::enforce::{Enforcer, Guards, Outcome, Permits, Step};

/// A request on its way through its limits: asked about before it goes on, and, where the charge waits for the response,
/// charged afterwards.
///
/// ```text
/// rate_limit.begin -> asking.decide -> turned away: rate_limit.answer
///                                                  -> admitted: the service -> asking.charge -> rate_limit.write_headers
/// ```
#[derive(Debug)]
pub struct Asking {
    pub(crate) rate_limit: RateLimit,
    pub(crate) demand: Demand,
}

impl Asking {
    /// What the service wants of its limits.
    pub fn rate_limit(&self) -> &RateLimit {
        &self.rate_limit
    }

    /// Gets the request into what guards how many are in flight, without waiting. None when it has to be waited for;
    /// nothing was done then.
    pub fn enter_now(&self, guards: &Guards, priority: Priority) -> Option<Result<Permits, Outcome>> {
        self.enforcer().enter_now(guards, self.demand.caller.as_ref(), priority)
    }

    /// Gets the request into what guards how many are in flight.
    pub async fn enter(&self, guards: &Guards, priority: Priority) -> Result<Permits, Outcome> {
        self.enforcer().enter(guards, self.demand.caller.as_ref(), priority).await
    }

    /// Whether a deny list turns the request away, so that nothing should be spent on it.
    pub fn is_denied(&self) -> bool {
        self.demand.caller.as_ref().is_some_and(|caller| self.enforcer().denies(caller))
    }

    /// Whether the request may go on, without waiting. None when it has to be waited for; nothing was done then.
    pub fn decide_now(&self) -> Option<Outcome> {
        self.demand.decide_now(&self.rate_limit)
    }

    /// Whether the request may go on.
    pub async fn decide(&self) -> Outcome {
        self.ask(self.rate_limit.first_step()).await
    }

    /// Puts the outcome of an admitted request where its handler finds it, if that is wanted.
    #[inline]
    pub fn tell_handler(&self, outcome: &Outcome, extensions: &mut Extensions) {
        self.rate_limit.tell_handler(outcome, extensions);
    }

    /// Whether a response like this is to be charged for: [`charge`](Self::charge) is next then.
    #[inline]
    pub fn is_charged(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        self.rate_limit.charges(status, headers)
    }

    /// Charges for a request whose response is known, without waiting. None when it has to be waited for; nothing was
    /// done then.
    pub fn charge_now(&self) -> Option<Outcome> {
        self.demand.now(&self.rate_limit, Step::Charge)
    }

    /// Charges for a request whose response is known.
    pub async fn charge(&self) -> Outcome {
        self.ask(Step::Charge).await
    }

    /// Gives back what the request has taken by `outcome`, because something else decides about it. Not when something
    /// has come back by itself since then: together that could be more than the quota.
    #[cfg(all(feature = "macros", feature = "tower"))]
    pub(crate) async fn give_back(&self, outcome: &Outcome) {
        let elapsed = SystemClock.now().since(self.demand.begun);
        let is_all_out = |ruling: &Ruling| ruling.decision().next_after().is_some_and(|next| elapsed < next);
        if self.rate_limit.first_step() == Step::Take
            && outcome.is_ordinary()
            && outcome.rulings().iter().all(is_all_out)
        {
            let _ = self.ask(Step::GiveBack).await;
        }
    }

    /// The address of its client, if it is known.
    #[cfg(all(feature = "macros", feature = "tower"))]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.demand.caller.as_ref()?.address().copied()
    }

    /// The limits that it meets.
    pub(crate) fn enforcer(&self) -> &Enforcer {
        self.demand.enforcer(&self.rate_limit)
    }

    async fn ask(&self, step: Step) -> Outcome {
        match &self.demand.caller {
            Some(caller) => self.enforcer().ask(caller, self.demand.cost, step).await,
            None => self.enforcer().without_key(),
        }
    }
}
