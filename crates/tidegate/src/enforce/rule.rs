//! One limit of an enforcer.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, DecisionParts, Key, OnStoreError, Quota, Reason};

use super::{Action, Caller, LimitDecision, LimitDecisions, LimitKind, Outcome};
use crate::limiter::{Call, CallKind, CallOptions, LimitSummary, WindowedDecision};
use crate::{Error, Limiter};

/// One limit of an enforcer, with its settings that differ from the limiter's.
#[derive(Clone)]
pub(super) struct Rule {
    limit: Arc<str>,
    /// Its name towards clients.
    pub(super) policy: Arc<str>,
    quota: Option<Box<Tier>>,
    pub(super) on_store_error: Option<OnStoreError>,
    /// What it counts.
    pub(super) kind: LimitKind,
}

/// Another quota than the limit's.
#[derive(Clone, Copy)]
struct Tier {
    quota: Quota,
    window: Option<Duration>,
}

impl Rule {
    pub(super) fn new(limit: impl Into<Arc<str>>, kind: LimitKind) -> Self {
        let policy: Arc<str> = limit.into();
        Rule { limit: Arc::clone(&policy), policy, quota: None, on_store_error: None, kind }
    }

    /// Whether the limit turns the caller away by its deny list, whatever is asked.
    pub(super) fn denies(&self, limiter: &Limiter, caller: &Caller<'_>, index: usize) -> bool {
        caller.key(index).is_some_and(|key| limiter.denies(&self.limit, key, caller.address()))
    }

    /// The caller's first key as the limit counts it, where the limit normalizes keys.
    pub(super) fn normalized(&self, limiter: &Limiter, caller: &Caller<'_>) -> Option<Key<'static>> {
        limiter.normalized(&self.limit, caller.key(0)?)
    }

    #[cfg(feature = "ws")]
    pub(super) fn check_name(&self, limiter: &Limiter) -> Result<(), Error> {
        limiter.summary(&self.limit).map(drop)
    }

    /// Resets a key, unless it shares its budget with other keys.
    #[cfg(feature = "ws")]
    pub(super) async fn forget(&self, limiter: &Limiter, key: &Key<'_>) {
        if limiter.summary(&self.limit).is_ok_and(|limit| !limit.is_common) {
            // A key that cannot be reset now is forgotten when it is as good as new.
            let _ = limiter.reset(&self.limit, key.borrow()).await;
        }
    }

    pub(super) fn set_quota(&mut self, quota: Quota) {
        self.quota = Some(Box::new(Tier { quota, window: quota.window() }));
    }

    /// The call to the limiter, for the caller's key at that place.
    #[inline]
    pub(super) fn call<'a>(
        &'a self,
        limiter: &'a Limiter,
        caller: &'a Caller<'_>,
        index: usize,
        cost: u64,
        action: Action,
    ) -> Result<Call<'a>, Error> {
        let Some(key) = caller.key(index) else { return Err(Error::NoKey) };
        let kind = match action {
            Action::Limit => CallKind::Limit,
            Action::Check => CallKind::Check,
            // A limit in shadow mode admits requests that it would have denied: they must not make debt.
            Action::Charge if self.summary(limiter)?.shadow => CallKind::Limit,
            // Every request that was admitted meanwhile counts, and is made up for later.
            Action::Charge => CallKind::Reserve,
            Action::Refund => CallKind::Refund,
        };
        let quota = self.quota.as_ref().map(|tier| &tier.quota);
        let options =
            CallOptions { quota, on_store_error: self.on_store_error, address: caller.address(), whole_key: None };
        Ok(limiter.call(&self.limit, key.borrow(), kind).cost(cost).with_options(options))
    }

    /// The limit's decision, with the name and the window that clients are told.
    #[inline]
    pub(super) fn limit_decision(&self, decided: WindowedDecision) -> LimitDecision {
        let window = self.quota.as_ref().map_or(decided.window, |tier| tier.window);
        LimitDecision::new(Arc::clone(&self.policy), window, decided.decision, self.kind)
    }

    /// The limit decision of a decision whose window is not known yet.
    pub(super) fn limit_decision_of(&self, limiter: &Limiter, decision: Decision) -> Result<LimitDecision, Error> {
        let window = limiter.summary(&self.limit)?.window;
        Ok(self.limit_decision(WindowedDecision { decision, window }))
    }

    /// The limit decision of a request of that cost when the store is broken. None when the request must be refused, which a limit in
    /// shadow mode never does.
    fn without_store(&self, limiter: &Limiter, cost: u64, shadow: bool) -> Result<Option<LimitDecision>, Error> {
        let LimitSummary { capacity, on_store_error, shadow: is_shadow, .. } = self.summary(limiter)?;
        let shadow = shadow || is_shadow;
        // A store within `Resilience` has applied the policy already, and returns only errors of closed limits. Without
        // `Resilience` there is nothing to limit with in process, so only an open limit admits.
        if on_store_error != OnStoreError::Open && !shadow {
            return Ok(None);
        }
        let decision = match cost > u64::from(capacity) && !shadow {
            // A request that can never be admitted is not admitted now either.
            true => never_admitted(capacity),
            false => Decision::admitted_without_store(capacity),
        };
        self.limit_decision_of(limiter, decision).map(Some)
    }

    fn summary(&self, limiter: &Limiter) -> Result<LimitSummary, Error> {
        let mut limit = limiter.summary(&self.limit)?;
        limit.capacity = self.quota.as_ref().map_or(limit.capacity, |tier| tier.quota.parts().capacity);
        limit.on_store_error = self.on_store_error.unwrap_or(limit.on_store_error);
        Ok(limit)
    }
}

/// The outcome of a request that the limiter failed to decide, and that costs each limit so much.
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
            Ok(Some(limit_decisions)) => Outcome::of(LimitDecisions(limit_decisions)),
            Ok(None) => Outcome::Unavailable(error),
            Err(error) => Outcome::invalid(error),
        },
        error => Outcome::Unavailable(error),
    }
}

/// The denial of a cost above the whole capacity, when the store cannot tell what is left.
fn never_admitted(capacity: u32) -> Decision {
    let parts = Decision::admitted_without_store(capacity).into_parts();
    DecisionParts { allowed: false, reason: Some(Reason::CostExceedsCapacity), ..parts }.into()
}
