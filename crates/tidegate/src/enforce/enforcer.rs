//! The enforcer: limits that are enforced together, with hooks.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
#[cfg(feature = "tracing")]
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tidegate_core::private::{InlineVec, poll_once};
use tidegate_core::{Key, OnStoreError, Quota};

use super::rule::{Rule, failed_outcome};
use super::{Caller, ConcurrencyGuards, LimitDecisions, LimitKind, Outcome, Permits};
use crate::concurrency::Priority;
use crate::{Call, Error, Limiter, MemoryStore, UnknownLimit};

/// The action of an enforcer on its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Takes the cost if every limit admits it. Nearly every request does this.
    Limit,
    /// Checks whether the cost would be admitted, and takes nothing.
    Check,
    /// Takes a cost that was checked before, even if other requests have taken the units since. That makes debt, which
    /// delays later requests.
    Charge,
    /// Gives back a cost that was taken.
    Refund,
}

/// One or several limits that are enforced together, with the settings of a service. Cheap to clone.
#[derive(Clone)]
pub struct Enforcer {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    limiter: Limiter,
    rules: Vec<Rule>,
    /// Whether the cost of a request is for the budgets among the rules only. The other rules count requests.
    has_budget: bool,
    shadow: bool,
    hooks: Hooks,
    /// Whether the missing key of requests has been logged.
    #[cfg(feature = "tracing")]
    has_logged_missing_key: Arc<AtomicBool>,
}

impl Limiter {
    /// Returns an enforcer of a limit, for a layer or another transport. An unknown name is an error that lists the
    /// known ones.
    ///
    /// ```
    /// # use tidegate::{Limiter, Quota, seconds};
    /// let limiter = Limiter::builder().limit("burst", Quota::token_bucket(10, seconds(1))?).build()?;
    /// let enforcer = limiter.enforcer("burst")?;
    /// let error = limiter.enforcer("brust").unwrap_err();
    /// assert_eq!(error.to_string(), "there is no limit named \"brust\": expected one of burst");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enforcer(&self, limit: impl Into<Arc<str>>) -> Result<Enforcer, UnknownLimit> {
        let limit = limit.into();
        self.check_name(&limit)?;
        Ok(Enforcer::unchecked(self, limit))
    }
}

impl Enforcer {
    /// Creates an enforcer of a limit that the limiter may not have. Every outcome is [`Outcome::Invalid`] then.
    pub(crate) fn unchecked(limiter: &Limiter, limit: impl Into<Arc<str>>) -> Self {
        Self::with_rules(limiter.clone(), vec![Rule::new(limit, LimitKind::Rate)])
    }

    /// Creates an enforcer without limits, for an [`Admission`](super::Admission) that only bounds requests in flight.
    /// [`Self::with_policy_name`] and [`Self::with_quota`] panic, because there is no limit to set.
    pub fn unlimited() -> Self {
        // Nothing is counted, so the smallest table is enough.
        let limiter = Limiter::builder().store(MemoryStore::builder().max_keys(1).build()).build();
        Self::with_rules(limiter.expect("nothing can be wrong with no limits"), Vec::new())
    }

    fn with_rules(limiter: Limiter, rules: Vec<Rule>) -> Self {
        let inner = Inner {
            limiter,
            rules,
            has_budget: false,
            shadow: false,
            hooks: Hooks::default(),
            #[cfg(feature = "tracing")]
            has_logged_missing_key: Arc::default(),
        };
        Enforcer { inner: Arc::new(inner) }
    }

    /// Creates an enforcer of a quota in this process's memory, under the name `default`.
    pub fn from_quota(quota: Quota) -> Self {
        const NAME: &str = "default";
        let limiter = Limiter::builder().limit(NAME, quota).build().expect("one limit with no settings");
        Enforcer::unchecked(&limiter, NAME)
    }

    /// Adds another limit of the limiter. A request takes from all limits or from none.
    pub fn and(self, limit: impl Into<Arc<str>>) -> Result<Self, UnknownLimit> {
        self.with_rule(limit.into(), LimitKind::Rate)
    }

    /// Adds another limit of the limiter, on the cost of requests: bytes, tokens, units of work. The limits that are
    /// not budgets then count every request as 1. A cost of 0 is a mistake in the program.
    pub fn and_budget(mut self, limit: impl Into<Arc<str>>) -> Result<Self, UnknownLimit> {
        self.inner_mut().has_budget = true;
        self.with_rule(limit.into(), LimitKind::Cost)
    }

    fn with_rule(mut self, limit: Arc<str>, kind: LimitKind) -> Result<Self, UnknownLimit> {
        self.inner.limiter.check_name(&limit)?;
        self.inner_mut().rules.push(Rule::new(limit, kind));
        Ok(self)
    }

    /// Sets the name of the last limit towards clients, such as in headers. Defaults to the limit's own name.
    #[must_use]
    pub fn with_policy_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.last_rule().policy = name.into();
        self
    }

    /// Sets another quota for the last limit, such as for premium users: two enforcers share one limit name with
    /// different quotas. A key keeps its usage when it moves between them.
    #[must_use]
    pub fn with_quota(mut self, quota: Quota) -> Self {
        self.last_rule().set_quota(quota);
        self
    }

    /// Sets the policy for a broken store, for all limits added so far. Defaults to each limit's own policy.
    ///
    /// It has no effect on a [bare store](crate::LimiterBuilder::bare_store).
    #[must_use]
    pub fn on_store_error(mut self, policy: OnStoreError) -> Self {
        self.inner_mut().rules.iter_mut().for_each(|rule| rule.on_store_error = Some(policy));
        self
    }

    /// Sets shadow mode: the enforcer decides and counts, and never denies. A request that would have been denied is
    /// allowed with its reason. The guards of an [`Admission`](super::Admission) have no shadow mode, because overload
    /// is real.
    #[must_use]
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.inner_mut().shadow = shadow;
        self
    }

    /// Calls a hook for every request that is [`Outcome::Limited`], [`Outcome::Overloaded`] or [`Outcome::Denied`], or
    /// would be without [shadow mode](Outcome::is_shadowed). A panic in the hook is caught.
    #[must_use]
    pub fn on_limited(mut self, hook: impl Fn(&Caller<'_>, &Outcome) + Send + Sync + 'static) -> Self {
        self.inner_mut().hooks.on_limited = Some(Arc::new(hook));
        self
    }

    /// Calls a hook for every request that is [`Outcome::Unavailable`] or [`Outcome::Invalid`], or was allowed because
    /// the store is broken. A panic in the hook is caught.
    #[must_use]
    pub fn on_error(mut self, hook: impl Fn(&Caller<'_>, &Outcome) + Send + Sync + 'static) -> Self {
        self.inner_mut().hooks.on_error = Some(Arc::new(hook));
        self
    }

    /// Uses the hooks of another enforcer.
    #[cfg(feature = "macros")]
    pub(crate) fn with_hooks_of(mut self, other: &Enforcer) -> Self {
        self.inner_mut().hooks = other.inner.hooks.clone();
        self
    }

    /// Returns the number of limits.
    #[cfg(feature = "ws")]
    pub(crate) fn len(&self) -> usize {
        self.inner.rules.len()
    }

    /// Returns a number that is unique among living enforcers.
    #[cfg(feature = "ws")]
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    /// Makes the limit at that index forget a key that will not be used again.
    #[cfg(feature = "ws")]
    pub(crate) async fn forget(&self, place: usize, key: &Key<'_>) {
        if let Some(rule) = self.inner.rules.get(place) {
            rule.forget(&self.inner.limiter, key).await;
        }
    }

    /// Returns the limiter of the limits.
    pub fn limiter(&self) -> &Limiter {
        &self.inner.limiter
    }

    /// Takes the cost if every limit admits it.
    pub async fn enforce<'a>(&self, key: impl Into<Key<'a>>, cost: u64) -> Outcome {
        self.apply(&Caller::new(key), cost, Action::Limit).await
    }

    /// Applies an action to all limits, and returns the outcome.
    pub async fn apply(&self, caller: &Caller<'_>, cost: u64, action: Action) -> Outcome {
        let answer = match &*self.inner.rules {
            [] => Ok(LimitDecisions::default()),
            [rule] => self.apply_one(rule, caller, cost, action).await,
            _ => match self.try_apply_several(caller, cost, action) {
                Some(outcome) => return outcome,
                // Boxed, because the future of several limits is large.
                None => Box::pin(self.apply_several(caller, cost, action)).await,
            },
        };
        self.finish(caller, action, answer)
    }

    /// Applies an action to all limits without waiting. Returns `None` if the store does I/O and must be awaited.
    /// Nothing was done then.
    pub fn try_apply(&self, caller: &Caller<'_>, cost: u64, action: Action) -> Option<Outcome> {
        let answer = match &*self.inner.rules {
            [] => Ok(LimitDecisions::default()),
            [rule] => match self.only_call(rule, caller, cost, action) {
                Ok(call) => call.try_decide()?.map(|decided| LimitDecisions::from(rule.limit_decision(decided))),
                Err(error) => Err(error),
            },
            _ => return self.try_apply_several(caller, cost, action),
        };
        Some(self.finish(caller, action, answer))
    }

    /// Returns the outcome of a request without a key, so that no limit could decide. Without limits, the request is
    /// allowed.
    pub fn missing_key(&self) -> Outcome {
        if !self.has_limits() {
            return Outcome::Allowed(LimitDecisions::default());
        }
        #[cfg(feature = "tracing")]
        self.log_missing_key();
        let outcome = Outcome::Invalid(Error::NoKey);
        self.inner.hooks.call(&Caller::with_keys([]), &outcome);
        outcome
    }

    /// Logs once how to fix requests without a key, because such a mistake affects every request.
    #[cfg(feature = "tracing")]
    fn log_missing_key(&self) {
        if self.inner.has_logged_missing_key.swap(true, Ordering::Relaxed) {
            return;
        }
        let limits: Vec<&str> = self.inner.rules.iter().map(|rule| &*rule.policy).collect();
        tracing::error!(
            "requests to the limit {} have no key and no client address, and are answered with an error. Expose peer \
             addresses: serve an axum router with `into_make_service_with_connect_info::<SocketAddr>()`, and insert a \
             `PeerAddr` into the request's extensions elsewhere. Or give the limit another key",
            limits.join(", ")
        );
    }

    /// Returns whether a deny list denies the caller, so that the request should cost nothing.
    pub(crate) fn denies(&self, caller: &Caller<'_>) -> bool {
        let Inner { limiter, rules, shadow, .. } = &*self.inner;
        !shadow && rules.iter().enumerate().any(|(index, rule)| rule.denies(limiter, caller, index))
    }

    /// Passes a request through concurrency guards, and calls the hooks for a rejection.
    pub(crate) async fn admit(
        &self,
        guards: &ConcurrencyGuards,
        caller: Option<&Caller<'_>>,
        priority: Priority,
    ) -> Result<Permits, Outcome> {
        let normalized = self.normalized_caller(guards, caller);
        let entered = guards.admit(normalized.as_ref().or(caller), priority).await;
        entered.inspect_err(|outcome| self.call_hooks(caller, outcome))
    }

    /// Passes a request through concurrency guards without waiting. Returns `None` if it must wait. Nothing was done
    /// then.
    #[cfg(feature = "http")]
    pub(crate) fn try_admit(
        &self,
        guards: &ConcurrencyGuards,
        caller: Option<&Caller<'_>>,
        priority: Priority,
    ) -> Option<Result<Permits, Outcome>> {
        let normalized = self.normalized_caller(guards, caller);
        let entered = guards.try_admit(normalized.as_ref().or(caller), priority)?;
        Some(entered.inspect_err(|outcome| self.call_hooks(caller, outcome)))
    }

    /// Returns the caller with the key as the first limit normalizes it, for guards that use keys.
    fn normalized_caller(&self, guards: &ConcurrencyGuards, caller: Option<&Caller<'_>>) -> Option<Caller<'static>> {
        let rule = self.inner.rules.first().filter(|_| guards.use_keys())?;
        rule.normalized(&self.inner.limiter, caller?).map(Caller::new)
    }

    fn call_hooks(&self, caller: Option<&Caller<'_>>, outcome: &Outcome) {
        match caller {
            Some(caller) => self.inner.hooks.call(caller, outcome),
            None => self.inner.hooks.call(&Caller::with_keys([]), outcome),
        }
    }

    /// Returns whether there is any limit.
    pub(crate) fn has_limits(&self) -> bool {
        !self.inner.rules.is_empty()
    }

    /// Returns the action to apply. In shadow mode a charge makes no debt, because a denied request would have taken
    /// nothing.
    #[inline]
    fn effective_action(&self, action: Action) -> Action {
        if action == Action::Charge && self.inner.shadow { Action::Limit } else { action }
    }

    /// Returns the cost of a request to one limit.
    #[inline]
    fn cost_for(&self, rule: &Rule, cost: u64) -> u64 {
        if self.inner.has_budget && rule.kind == LimitKind::Rate { 1 } else { cost }
    }

    /// Returns the call to an enforcer's only limit.
    #[inline]
    fn only_call<'a>(
        &'a self,
        rule: &'a Rule,
        caller: &'a Caller<'_>,
        cost: u64,
        action: Action,
    ) -> Result<Call<'a>, Error> {
        if !caller.has_keys_for(1) {
            return Err(Error::NoKey);
        }
        rule.call(
            &self.inner.limiter,
            caller,
            0,
            self.cost_for(rule, cost),
            self.effective_action(action),
            self.inner.shadow,
        )
    }

    async fn apply_one(
        &self,
        rule: &Rule,
        caller: &Caller<'_>,
        cost: u64,
        action: Action,
    ) -> Result<LimitDecisions, Error> {
        let call = self.only_call(rule, caller, cost, action)?;
        let immediate = self.inner.limiter.is_immediate();
        match immediate.then(|| call.try_decide()).flatten() {
            Some(decided) => Ok(rule.limit_decision(decided?).into()),
            // Boxed, so that a waiting future is small.
            None => Ok(rule.limit_decision(Box::pin(call.decide()).await?).into()),
        }
    }

    /// Applies an action to several limits, without waiting.
    fn try_apply_several(&self, caller: &Caller<'_>, cost: u64, action: Action) -> Option<Outcome> {
        if !self.inner.limiter.is_immediate() {
            return None;
        }
        Some(self.finish(caller, action, poll_once(self.apply_several(caller, cost, action))))
    }

    async fn apply_several(&self, caller: &Caller<'_>, cost: u64, action: Action) -> Result<LimitDecisions, Error> {
        let Inner { limiter, rules, shadow, .. } = &*self.inner;
        if !caller.has_keys_for(rules.len()) {
            return Err(Error::NoKey);
        }
        let call = |(index, rule)| {
            Rule::call(rule, limiter, caller, index, self.cost_for(rule, cost), self.effective_action(action), *shadow)
        };
        let calls = rules.iter().enumerate().map(call).collect::<Result<InlineVec<_>, Error>>()?;
        let mut limit_decisions = LimitDecisions(SmallVec::with_capacity(rules.len()));
        if action == Action::Limit {
            let joint = limiter.limit_all_borrowed(&calls).await?;
            for (rule, decision) in rules.iter().zip(joint.decisions()) {
                limit_decisions.0.push(rule.limit_decision_of(limiter, *decision)?);
            }
            return Ok(limit_decisions);
        }
        let mut failed = None;
        for (rule, call) in rules.iter().zip(&calls) {
            match call.decide().await {
                Ok(decided) => limit_decisions.0.push(rule.limit_decision(decided)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        // A denial stands, even if another limit failed.
        match failed {
            Some(error) if limit_decisions.iter().all(|limit| limit.decision().allowed()) => Err(error),
            _ => Ok(limit_decisions),
        }
    }

    /// Creates the outcome, and calls the hooks.
    fn finish(&self, caller: &Caller<'_>, action: Action, answer: Result<LimitDecisions, Error>) -> Outcome {
        let Inner { shadow, hooks, .. } = &*self.inner;
        // A charge or a refund denies no request.
        let may_deny = matches!(action, Action::Limit | Action::Check);
        let outcome = match answer {
            Ok(limit_decisions) if *shadow => Outcome::from_limit_decisions(limit_decisions.shadowed()),
            Ok(limit_decisions) => Outcome::from_limit_decisions(limit_decisions),
            Err(error) => failed_outcome(error),
        };
        if may_deny || outcome.error().is_some() || outcome.is_without_store() {
            hooks.call(caller, &outcome);
        }
        outcome
    }

    fn inner_mut(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.inner)
    }

    fn last_rule(&mut self) -> &mut Rule {
        self.inner_mut().rules.last_mut().expect("a limit was given before")
    }
}

impl From<Quota> for Enforcer {
    fn from(quota: Quota) -> Self {
        Enforcer::from_quota(quota)
    }
}

impl fmt::Debug for Enforcer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { limiter, rules, shadow, .. } = &*self.inner;
        let policies: Vec<_> = rules.iter().map(|rule| &rule.policy).collect();
        let mut debug = f.debug_struct("Enforcer");
        debug.field("policies", &policies).field("shadow", shadow).field("limiter", limiter).finish_non_exhaustive()
    }
}

type Hook = Arc<dyn Fn(&Caller<'_>, &Outcome) + Send + Sync>;

/// The hooks of the program.
#[derive(Clone, Default)]
struct Hooks {
    on_limited: Option<Hook>,
    on_error: Option<Hook>,
}

impl Hooks {
    fn call(&self, caller: &Caller<'_>, outcome: &Outcome) {
        let hook = match outcome {
            Outcome::Limited(_) | Outcome::Overloaded(_) | Outcome::Denied(_) => &self.on_limited,
            Outcome::Unavailable(_) | Outcome::Invalid(_) => &self.on_error,
            Outcome::Allowed(_) if self.on_error.is_some() && outcome.is_without_store() => &self.on_error,
            Outcome::Allowed(_) if self.on_limited.is_some() && outcome.is_shadowed() => &self.on_limited,
            Outcome::Allowed(_) => return,
        };
        if let Some(hook) = hook {
            // The request is already decided, so a panicking hook must not affect it. The panic's message has been
            // printed.
            let _ = catch_unwind(AssertUnwindSafe(|| hook(caller, outcome)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_limit_is_an_error_that_lists_the_limits() {
        let enforcer = Enforcer::from_quota(Quota::token_bucket(1, std::time::Duration::from_secs(1)).unwrap());
        let errors = [
            enforcer.limiter().enforcer("defualt").unwrap_err(),
            enforcer.clone().and("defualt").unwrap_err(),
            enforcer.and_budget("defualt").unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.to_string(), "there is no limit named \"defualt\": expected one of default");
        }
    }

    #[test]
    fn waiting_futures_are_small_for_any_number_of_limits() {
        let enforcer = Enforcer::from_quota(Quota::token_bucket(1, std::time::Duration::from_secs(1)).unwrap());
        let caller = Caller::new("alice");
        // Every waiting request has its future, and the state of several limits takes some kilobytes.
        let one = size_of_val(&enforcer.apply(&caller, 1, Action::Limit));
        let all = size_of_val(&enforcer.limiter().limit_all([enforcer.limiter().limit("default", "alice")]));
        assert!(one <= 1_024 && all <= 1_536, "{one} and {all} bytes");
    }
}
