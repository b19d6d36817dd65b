//! What an enforcer says without waiting.

use std::time::Duration;

use tidegate_core::Decision;

use super::rule::Rule;
use super::{Outcome, Rulings};

/// What an enforcer says without waiting.
pub(crate) enum Answer<'a> {
    /// Its one limit admits it, and nobody is told of that.
    Yes(Yes<'a>),
    Other(Outcome),
}

/// The plain yes of one limit.
pub(crate) struct Yes<'a> {
    pub(super) rule: &'a Rule,
    pub(super) window: Option<Duration>,
    pub(super) decision: Decision,
}

impl Yes<'_> {
    /// What a transport is told of it.
    #[inline]
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome::Allowed(Rulings::one(self.rule.ruling_in(self.window, self.decision)))
    }
}
