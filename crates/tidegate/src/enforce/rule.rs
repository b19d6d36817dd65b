//! One limit of an enforcer.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Key, OnStoreError, Quota};

use super::{Action, Caller, LimitDecision, LimitKind, Outcome};
use crate::limiter::{Call, CallKind, CallOptions, LimitSummary, WindowedDecision};
use crate::{Error, Limiter};

/// One limit of an enforcer, with the settings that differ from the limiter's.
#[derive(Clone)]
pub(super) struct Rule {
    limit: Arc<str>,
    /// The name towards clients.
    pub(super) policy: Arc<str>,
    quota_override: Option<Box<QuotaOverride>>,
    pub(super) on_store_error: Option<OnStoreError>,
    /// The kind of the limit.
    pub(super) kind: LimitKind,
}

/// A quota in place of the limit's.
#[derive(Clone, Copy)]
struct QuotaOverride {
    quota: Quota,
    window: Option<Duration>,
}

impl Rule {
    pub(super) fn new(limit: impl Into<Arc<str>>, kind: LimitKind) -> Self {
        let policy: Arc<str> = limit.into();
        Rule { limit: Arc::clone(&policy), policy, quota_override: None, on_store_error: None, kind }
    }

    /// Returns whether the limit's deny list denies the caller, for any operation.
    pub(super) fn denies(&self, limiter: &Limiter, caller: &Caller<'_>, index: usize) -> bool {
        caller.key(index).is_some_and(|key| limiter.denies(&self.limit, key, caller.address()))
    }

    /// Returns the caller's first key as the limit normalizes it, if the limit normalizes keys.
    pub(super) fn normalized(&self, limiter: &Limiter, caller: &Caller<'_>) -> Option<Key<'static>> {
        limiter.normalized(&self.limit, caller.key(0)?)
    }

    /// Resets a key, unless it shares its budget with other keys.
    #[cfg(feature = "ws")]
    pub(super) async fn forget(&self, limiter: &Limiter, key: &Key<'_>) {
        if limiter.summary(&self.limit).is_ok_and(|limit| !limit.is_common) {
            // A key that cannot be reset now is evicted when it is as good as new.
            let _ = limiter.reset(&self.limit, key.borrow()).await;
        }
    }

    pub(super) fn set_quota(&mut self, quota: Quota) {
        self.quota_override = Some(Box::new(QuotaOverride { quota, window: quota.window() }));
    }

    /// Returns the call to the limiter, for the caller's key at that index.
    #[inline]
    pub(super) fn call<'a>(
        &'a self,
        limiter: &'a Limiter,
        caller: &'a Caller<'_>,
        index: usize,
        cost: u64,
        action: Action,
        shadow: bool,
    ) -> Result<Call<'a>, Error> {
        let Some(key) = caller.key(index) else { return Err(Error::NoKey) };
        let kind = match action {
            Action::Limit => CallKind::Limit,
            Action::Check => CallKind::Check,
            // A limit in shadow mode admits requests that it would have denied. They must not make debt.
            Action::Charge if self.summary(limiter)?.shadow => CallKind::Limit,
            // Every request that was admitted meanwhile counts, and later requests pay the debt.
            Action::Charge => CallKind::Reserve,
            Action::Refund => CallKind::Refund,
        };
        let quota = self.quota_override.as_ref().map(|quota_override| &quota_override.quota);
        // Shadow mode never denies, even when the store is broken.
        let on_store_error = match self.on_store_error {
            _ if shadow => Some(OnStoreError::Open),
            None => None,
            Some(policy) => Some(self.policy_unless_shadow(limiter, policy)?),
        };
        let options = CallOptions { quota, on_store_error, address: caller.address(), whole_key: None, shadow };
        Ok(limiter.call(&self.limit, key.borrow(), kind).cost(cost).with_options(options))
    }

    /// Returns the failure policy of a layer, or `Open` for a limit in shadow mode, which never denies.
    #[cold]
    fn policy_unless_shadow(&self, limiter: &Limiter, policy: OnStoreError) -> Result<OnStoreError, Error> {
        Ok(if self.summary(limiter)?.shadow { OnStoreError::Open } else { policy })
    }

    /// Returns the limit's decision, with the name and the window for clients.
    #[inline]
    pub(super) fn limit_decision(&self, decided: WindowedDecision) -> LimitDecision {
        let window = self.quota_override.as_ref().map_or(decided.window, |quota_override| quota_override.window);
        LimitDecision::new(Arc::clone(&self.policy), window, decided.decision, self.kind)
    }

    /// Returns the limit decision of a decision whose window is not known yet.
    pub(super) fn limit_decision_of(&self, limiter: &Limiter, decision: Decision) -> Result<LimitDecision, Error> {
        let window = limiter.summary(&self.limit)?.window;
        Ok(self.limit_decision(WindowedDecision { decision, window }))
    }

    fn summary(&self, limiter: &Limiter) -> Result<LimitSummary, Error> {
        let mut limit = limiter.summary(&self.limit)?;
        limit.capacity =
            self.quota_override.as_ref().map_or(limit.capacity, |quota_override| quota_override.quota.parts().capacity);
        Ok(limit)
    }
}

/// Returns the outcome of a request that the limiter failed to decide. The store has already applied each limit's
/// `on_store_error`.
#[cold]
pub(super) fn failed_outcome(error: Error) -> Outcome {
    if error.is_misuse() { Outcome::invalid(error) } else { Outcome::Unavailable(error) }
}
