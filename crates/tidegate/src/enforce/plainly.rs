//! The one limit of an enforcer, asked by the shortest way.

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
impl Plainly<'_> {
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

    /// What a transport is told of a yes or a no about which nobody else is told. Of anything else there is an
    /// [outcome](Self::outcome).
    #[inline]
    pub(crate) fn quietly(&self, decision: &Decision) -> Option<Outcome> {
        if decision.is_ordinary() {
            Some(Outcome::Allowed(self.rulings(decision)))
        } else if !decision.allowed() && self.enforcer.denies_quietly() {
            Some(Outcome::of(self.rulings(decision)))
        } else {
            None
        }
    }

    /// What a transport is told, once the hooks know.
    pub(crate) fn outcome(&self, answer: &Result<Decision, StoreError>, caller: &Caller<'_>) -> Outcome {
        let rulings = answer.as_ref().map(|decision| self.rulings(decision));
        self.enforcer.finish(caller, Step::Take, rulings.map_err(|error| Error::Store(error.clone())))
    }

    #[inline]
    fn rulings(&self, decision: &Decision) -> Rulings {
        Rulings::one(self.rule.ruling_in(self.window(), *decision))
    }
}
