//! What an enforcer's one limit says where it stands.

use std::time::Duration;

use tidegate_core::{Decision, StoreError};

use super::rule::Rule;
use super::{Caller, Enforcer, Outcome, Rulings, Step};
use crate::Error;

/// What the one limit of an enforcer says, before anything is made of it.
pub(crate) struct Said<'a> {
    pub(super) rule: &'a Rule,
    pub(super) window: Option<Duration>,
    pub(super) answer: Result<Decision, StoreError>,
}

impl Said<'_> {
    /// Whether it is an ordinary yes, as nearly always, about which nobody is told.
    #[inline]
    pub(crate) fn is_ordinary(&self) -> bool {
        self.answer.as_ref().is_ok_and(Decision::is_ordinary)
    }

    /// What a transport is told of an ordinary yes. Of anything else there is an [outcome](Self::outcome).
    #[inline]
    pub(crate) fn allowed(&self) -> Option<Outcome> {
        let decision = self.answer.as_ref().ok().filter(|decision| decision.is_ordinary())?;
        Some(Outcome::Allowed(Rulings::one(self.rule.ruling_in(self.window, *decision))))
    }

    /// What a transport is told of it, once the hooks know.
    pub(crate) fn outcome(self, enforcer: &Enforcer, caller: &Caller<'_>) -> Outcome {
        let Said { rule, window, answer } = self;
        let rulings = answer.map(|decision| Rulings::one(rule.ruling_in(window, decision)));
        enforcer.finish(caller, Step::Take, rulings.map_err(Error::Store))
    }
}
