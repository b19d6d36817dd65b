//! One limit of an enforcer.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, DecisionParts, Key, OnStoreError, Quota, Reason};

use super::{Axis, Caller, Outcome, Ruling, Rulings, Step};
#[cfg(feature = "tower")]
use crate::limiter::Plain;
use crate::limiter::{Kind, Name, Outline, Question, Terms};
use crate::{Error, Limiter};

/// One limit of an enforcer, and what is settled differently for it.
// Small: every request looks at it.
#[derive(Clone)]
pub(super) struct Rule {
    limit: Name,
    /// Its name towards clients.
    pub(super) policy: Arc<str>,
    quota: Option<Box<Tier>>,
    pub(super) on_store_error: Option<OnStoreError>,
    /// What it counts.
    pub(super) axis: Axis,
}

/// Another quota than the limit's.
#[derive(Clone, Copy)]
struct Tier {
    quota: Quota,
    window: Option<Duration>,
}

impl Rule {
    pub(super) fn new(limit: impl Into<Arc<str>>, axis: Axis) -> Self {
        let policy: Arc<str> = limit.into();
        Rule { limit: Name::new(Arc::clone(&policy)), policy, quota: None, on_store_error: None, axis }
    }

    /// Whether the limit turns the caller away by its deny list, whatever is asked.
    pub(super) fn denies(&self, limiter: &Limiter, caller: &Caller<'_>, index: usize) -> bool {
        caller.key(index).is_some_and(|key| limiter.denies(&self.limit, key, caller.address()))
    }

    /// The caller's first key as the limit counts it, where that makes keys alike.
    pub(super) fn counted(&self, limiter: &Limiter, caller: &Caller<'_>) -> Option<Key<'static>> {
        limiter.counted(&self.limit, caller.key(0)?)
    }

    /// Has the limit forget a key. Not where a key has no budget of its own: that of the others is not its to give back.
    #[cfg(feature = "ws")]
    pub(super) async fn forget(&self, limiter: &Limiter, key: &Key<'_>) {
        if limiter.outline(&self.limit).is_ok_and(|outline| !outline.is_common) {
            // What cannot be forgotten now is forgotten when it is as good as new.
            let _ = limiter.reset(&self.limit, key.borrow()).await;
        }
    }

    pub(super) fn set_quota(&mut self, quota: Quota) {
        self.quota = Some(Box::new(Tier { quota, window: quota.window() }));
    }

    /// The question to the limiter, for the caller's key at that place.
    #[inline]
    pub(super) fn question<'a>(
        &'a self,
        limiter: &'a Limiter,
        caller: &'a Caller<'_>,
        index: usize,
        cost: u64,
        step: Step,
    ) -> Result<Question<'a>, Error> {
        let Some(key) = caller.key(index) else { return Err(Error::NoKey) };
        let kind = match step {
            Step::Take => Kind::Limit,
            Step::Look => Kind::Check,
            // A budget that is spread knows no debt, and a limit in shadow mode lets through whom it would have denied.
            Step::Charge
                if matches!(self.outline(limiter)?, Outline { is_spread: true, .. } | Outline { shadow: true, .. }) =>
            {
                Kind::Limit
            }
            // All who were let through in the meantime count, and are made up for later.
            Step::Charge => Kind::Reserve,
            Step::GiveBack => Kind::Refund,
        };
        let quota = self.quota.as_ref().map(|tier| &tier.quota);
        let terms = Terms { quota, on_store_error: self.on_store_error, address: caller.address(), whole_key: None };
        Ok(Question { limiter, name: &self.limit, key, cost, kind, terms })
    }

    /// The limit, if it can be asked by the shortest way.
    #[cfg(feature = "tower")]
    #[inline(always)]
    pub(super) fn plain<'a>(&self, limiter: &'a Limiter) -> Option<Plain<'a>> {
        if self.quota.is_some() { None } else { limiter.plain(&self.limit) }
    }

    /// What the limit said, with the quota it was asked under.
    #[inline]
    pub(super) fn ruling(&self, limiter: &Limiter, decision: Decision) -> Result<Ruling, Error> {
        Ok(self.ruling_in(limiter.outline(&self.limit)?.window, decision))
    }

    /// The same, for a limit whose own quota has that window.
    #[inline]
    pub(super) fn ruling_in(&self, window: Option<Duration>, decision: Decision) -> Ruling {
        let window = self.quota.as_ref().map_or(window, |tier| tier.window);
        Ruling::new(Arc::clone(&self.policy), window, decision, self.axis)
    }

    /// What would be said of a request of that cost that the broken store did not get to see. None when it is to be refused,
    /// which a limit in shadow mode never does.
    fn without_store(&self, limiter: &Limiter, cost: u64, shadow: bool) -> Result<Option<Ruling>, Error> {
        let Outline { capacity, on_store_error, shadow: is_shadow, .. } = self.outline(limiter)?;
        let shadow = shadow || is_shadow;
        // A store within `Resilience` has applied the policy already, and passes on the errors of limits that are closed. It
        // takes what is in there to limit in process, so without it only an open limit admits.
        if on_store_error != OnStoreError::Open && !shadow {
            return Ok(None);
        }
        let decision = match cost > u64::from(capacity) && !shadow {
            // What nobody ever would admit does not become possible by this.
            true => never(capacity),
            false => Decision::admitted_without_store(capacity),
        };
        self.ruling(limiter, decision).map(Some)
    }

    fn outline(&self, limiter: &Limiter) -> Result<Outline, Error> {
        let mut outline = limiter.outline(&self.limit)?;
        outline.capacity = self.quota.as_ref().map_or(outline.capacity, |tier| tier.quota.parts().capacity);
        outline.on_store_error = self.on_store_error.unwrap_or(outline.on_store_error);
        Ok(outline)
    }
}

/// What becomes of a request about which the limiter could not say anything, and which costs each limit so much.
#[cold]
pub(super) fn failed(
    limiter: &Limiter,
    rules: &[Rule],
    cost: impl Fn(&Rule) -> u64,
    shadow: bool,
    error: Error,
) -> Outcome {
    match error {
        error if error.is_misuse() => Outcome::invalid(error),
        Error::Store(_) => match rules.iter().map(|rule| rule.without_store(limiter, cost(rule), shadow)).collect() {
            Ok(Some(rulings)) => Outcome::of(Rulings::several(rulings)),
            Ok(None) => Outcome::Unavailable(error),
            Err(error) => Outcome::invalid(error),
        },
        error => Outcome::Unavailable(error),
    }
}

/// A no to what costs more than the whole capacity. What is left nobody knows.
fn never(capacity: u32) -> Decision {
    let parts = Decision::admitted_without_store(capacity).into_parts();
    DecisionParts { allowed: false, reason: Some(Reason::CostExceedsCapacity), ..parts }.into()
}
