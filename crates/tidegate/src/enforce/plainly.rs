//! The one limit of an enforcer, asked by the shortest way.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Key, StoreError};

use super::rule::Rule;
use super::{Caller, Enforcer, Outcome, Rulings, Step};
use crate::Error;
use crate::limiter::Plain;

/// The one limit of an enforcer, about which nothing is unusual.
pub(crate) struct Plainly<'a> {
    pub(super) enforcer: &'a Enforcer,
    pub(super) rule: &'a Rule,
    pub(super) limit: Plain<'a>,
}

// What the limit says is handed on where it is: what was written a moment ago is slow to copy.
impl<'a> Plainly<'a> {
    /// What the limit says to somebody who takes 1. None when it has to be waited for; nothing was done then.
    #[inline(always)]
    pub(crate) fn take(&self, key: &Key<'_>) -> Option<Result<Decision, StoreError>> {
        self.limit.limit(key, self.rule.on_store_error)
    }

    /// The limit's name towards clients.
    #[inline]
    pub(crate) fn policy(&self) -> &Arc<str> {
        &self.rule.policy
    }

    /// In what time its quota is full when it is empty.
    #[inline]
    pub(crate) fn window(&self) -> Option<Duration> {
        self.limit.window()
    }

    /// What a transport is told of a yes that is as usual.
    pub(crate) fn admission(&self, decision: &Decision) -> Outcome {
        Outcome::Allowed(self.rulings(decision))
    }

    /// What a transport is told of a no of which nobody else is told.
    #[inline]
    pub(crate) fn denial(self, decision: &Decision) -> Result<Denial<'a>, Self> {
        let is_one = !decision.allowed() && self.enforcer.denies_quietly();
        if is_one { Ok(Denial { limit: self, decision: *decision }) } else { Err(self) }
    }

    /// What a transport is told, once the hooks know.
    pub(crate) fn outcome(&self, answer: &Result<Decision, StoreError>, caller: &Caller<'_>) -> Outcome {
        let rulings = answer.as_ref().map(|decision| self.rulings(decision));
        self.enforcer.finish(caller, 1, Step::Take, rulings.map_err(|error| Error::Store(error.clone())))
    }

    #[inline]
    fn rulings(&self, decision: &Decision) -> Rulings {
        Rulings::one(self.rule.ruling_in(self.window(), *decision))
    }
}

/// The no of one limit, of which only the client is told. What is told of it can be put together without an outcome.
pub struct Denial<'a> {
    limit: Plainly<'a>,
    decision: Decision,
}

impl<'a> Denial<'a> {
    /// What became of the request.
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.limit.rulings(&self.decision))
    }

    pub(crate) fn limit(&self) -> &Plainly<'a> {
        &self.limit
    }

    pub(crate) fn decision(&self) -> &Decision {
        &self.decision
    }
}

impl fmt::Debug for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denial").field("policy", self.limit.policy()).field("decision", &self.decision).finish()
    }
}
