//! Limits that are enforced together.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use tidegate_core::private::{Few, at_once};
use tidegate_core::{Key, OnStoreError, Quota};

use super::hooks::Hooks;
#[cfg(feature = "tower")]
use super::plainly::Plainly;
use super::rule::{Rule, failed};
use super::{Axis, Caller, Guards, Outcome, Permits, Ruling, Rulings};
use crate::concurrency::Priority;
use crate::{Error, Limiter, MemoryStore};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// To take, if every limit admits it: what nearly every request does.
    Take,
    /// To look whether it would be admitted, and take nothing.
    Look,
    /// To take what was looked at before, even when others have taken it since: that is debt then, which holds off later
    /// requests.
    Charge,
    /// To give back what was taken.
    GiveBack,
}

/// One limit or several that are enforced together, with what a service wants of them. Cheap to clone.
#[derive(Clone)]
pub struct Enforcer {
    inner: Arc<Inner>,
}

/// What every request looks at comes first.
#[derive(Clone)]
#[repr(C)]
struct Inner {
    limiter: Limiter,
    rules: Vec<Rule>,
    /// Whether what a request costs is for the budgets among the rules, and the others count requests.
    has_budget: bool,
    shadow: bool,
    hooks: Hooks,
}

impl Enforcer {
    /// Enforces a limit. One that the limiter does not know makes every outcome [`Outcome::Invalid`].
    pub fn new(limiter: &Limiter, limit: impl Into<Arc<str>>) -> Self {
        Self::with_rules(limiter.clone(), vec![Rule::new(limit, Axis::Rate)])
    }

    /// Enforces nothing: for an [`Admission`](super::Admission) that is only about how many are in flight. There is no limit
    /// whose [`policy`](Self::policy) or [`quota`](Self::quota) could be set, and to try is a panic.
    pub fn unlimited() -> Self {
        // There is nothing to count, so a table of the least size will do.
        let limiter = Limiter::builder().store(MemoryStore::builder().max_keys(1).build()).build();
        Self::with_rules(limiter.expect("nothing can be wrong with no limits"), Vec::new())
    }

    fn with_rules(limiter: Limiter, rules: Vec<Rule>) -> Self {
        let inner = Inner { limiter, rules, has_budget: false, shadow: false, hooks: Hooks::default() };
        Enforcer { inner: Arc::new(inner) }
    }

    /// Enforces a quota in this process's memory, under the name `default`.
    pub fn of(quota: Quota) -> Self {
        const NAME: &str = "default";
        let limiter = Limiter::builder().limit(NAME, quota).build().expect("one limit with no settings");
        Enforcer::new(&limiter, NAME)
    }

    /// Enforces a further limit of the same limiter: all of them are taken, or none.
    #[must_use]
    pub fn and(mut self, limit: impl Into<Arc<str>>) -> Self {
        self.change().rules.push(Rule::new(limit, Axis::Rate));
        self
    }

    /// Enforces a further limit of the same limiter, on what requests cost: bytes, tokens, units of work. The limits that
    /// are no budgets count requests then, each as 1, whatever it costs. A cost of 0 is a mistake in the program.
    #[must_use]
    pub fn and_budget(mut self, limit: impl Into<Arc<str>>) -> Self {
        let inner = self.change();
        inner.rules.push(Rule::new(limit, Axis::Cost));
        inner.has_budget = true;
        self
    }

    /// The name of the limit that was given last towards clients, such as in headers: the limit's own unless said
    /// otherwise.
    #[must_use]
    pub fn policy(mut self, name: impl Into<Arc<str>>) -> Self {
        self.last().policy = name.into();
        self
    }

    /// Another quota for the limit that was given last: one enforcer for free users and one for premium ones, under one
    /// name. What a key has used is kept when it comes to the other.
    #[must_use]
    pub fn quota(mut self, quota: Quota) -> Self {
        self.last().set_quota(quota);
        self
    }

    /// What to do when the store is broken, for all limits that are there by now: what each of them says unless said
    /// otherwise.
    ///
    /// [`Local`](OnStoreError::Local) takes a store within [`Resilience`](crate::resilience::Resilience); without it
    /// requests are refused as unavailable.
    #[must_use]
    pub fn on_store_error(mut self, policy: OnStoreError) -> Self {
        self.change().rules.iter_mut().for_each(|rule| rule.on_store_error = Some(policy));
        self
    }

    /// Decides and counts, and never denies. What would have been denied is allowed with its reason. The guards of an
    /// [`Admission`](super::Admission) know no shadow: what they guard against is real.
    #[must_use]
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.change().shadow = shadow;
        self
    }

    /// Is told of every request that is [`Outcome::Limited`], [`Outcome::Overloaded`] or [`Outcome::Denied`], and of those
    /// that would be but for [shadow mode](Outcome::is_shadowed). A panic in it is contained.
    #[must_use]
    pub fn on_limited(mut self, hook: impl Fn(&Caller<'_>, &Outcome) + Send + Sync + 'static) -> Self {
        self.change().hooks.on_limited = Some(Arc::new(hook));
        self
    }

    /// Is told of every request that is [`Outcome::Unavailable`] or [`Outcome::Invalid`], and of those that are allowed
    /// because the store is broken. A panic in it is contained.
    #[must_use]
    pub fn on_error(mut self, hook: impl Fn(&Caller<'_>, &Outcome) + Send + Sync + 'static) -> Self {
        self.change().hooks.on_error = Some(Arc::new(hook));
        self
    }

    /// Tells whom another enforcer tells.
    #[cfg(feature = "macros")]
    pub(crate) fn with_hooks_of(mut self, other: &Enforcer) -> Self {
        self.change().hooks = other.inner.hooks.clone();
        self
    }

    /// How many limits there are.
    #[cfg(feature = "ws")]
    pub(crate) fn len(&self) -> usize {
        self.inner.rules.len()
    }

    /// What tells enforcers apart, while they are there.
    #[cfg(feature = "ws")]
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    /// Has the limit at that place forget a key that nobody will come with again.
    #[cfg(feature = "ws")]
    pub(crate) async fn forget(&self, place: usize, key: &Key<'_>) {
        if let Some(rule) = self.inner.rules.get(place) {
            rule.forget(&self.inner.limiter, key).await;
        }
    }

    /// The limiter whose limits these are.
    pub fn limiter(&self) -> &Limiter {
        &self.inner.limiter
    }

    /// Takes, if every limit admits it.
    pub async fn enforce<'a>(&self, key: impl Into<Key<'a>>, cost: u64) -> Outcome {
        self.ask(&Caller::new(key), cost, Step::Take).await
    }

    /// What becomes of a request, waited for.
    pub async fn ask(&self, caller: &Caller<'_>, cost: u64, step: Step) -> Outcome {
        let answer = match &*self.inner.rules {
            [] => Ok(Rulings::none()),
            [rule] => self.ask_one(rule, caller, cost, step).await.map(Rulings::one),
            _ => match self.ask_several_now(caller, cost, step) {
                Some(outcome) => return outcome,
                // On the heap, because what several limits work with is large.
                None => Box::pin(self.ask_several(caller, cost, step)).await,
            },
        };
        self.finish(caller, cost, step, answer)
    }

    /// What becomes of a request, without waiting. None when it has to be waited for: the store does I/O or may wait for
    /// something else, or it is not to take from a limit whose budget is spread. Nothing was done then.
    #[inline]
    pub fn ask_now(&self, caller: &Caller<'_>, cost: u64, step: Step) -> Option<Outcome> {
        let rule = match &*self.inner.rules {
            [] => return Some(Outcome::Allowed(Rulings::none())),
            [rule] => rule,
            _ => return self.ask_several_now(caller, cost, step),
        };
        if !caller.fits(1) {
            return Some(self.finish(caller, cost, step, Err(Error::NoKey)));
        }
        let window = Cell::new(None);
        let answer = match rule.question(&self.inner.limiter, caller, 0, self.cost_to(rule, cost), self.step(step)) {
            Ok(question) => question.now(&window)?,
            Err(error) => Err(error),
        };
        let ruling = |decision| Rulings::one(rule.ruling_in(window.get(), decision));
        Some(match answer {
            // Nearly always, and nobody is told of it.
            Ok(decision) if decision.is_ordinary() => Outcome::Allowed(ruling(decision)),
            answer => self.finish(caller, cost, step, answer.map(ruling)),
        })
    }

    /// The one limit, if it can be asked by the shortest way.
    #[cfg(feature = "tower")]
    #[inline(always)]
    pub(crate) fn plainly(&self) -> Option<Plainly<'_>> {
        let Inner { limiter, rules, .. } = &*self.inner;
        let [rule] = &**rules else { return None };
        Some(Plainly { enforcer: self, rule, limit: rule.plain(limiter)? })
    }

    /// Whether a denial is just that, and nobody wants to be told of it.
    #[cfg(feature = "tower")]
    #[inline]
    pub(super) fn denies_quietly(&self) -> bool {
        !self.inner.shadow && self.inner.hooks.on_limited.is_none()
    }

    /// The outcome of a request that has no key, so that no limit could be asked. Where there is none, there is nothing to ask.
    pub fn without_key(&self) -> Outcome {
        if !self.has_limits() {
            return Outcome::Allowed(Rulings::none());
        }
        self.finish(&Caller::each([]), 1, Step::Take, Err(Error::NoKey))
    }

    /// Whether a deny list turns the caller away, so that nothing should be spent on it.
    pub(crate) fn denies(&self, caller: &Caller<'_>) -> bool {
        let Inner { limiter, rules, shadow, .. } = &*self.inner;
        !shadow && rules.iter().enumerate().any(|(index, rule)| rule.denies(limiter, caller, index))
    }

    /// Gets a request into what guards how many are in flight, and tells the hooks of one that does not get as far as the
    /// limits.
    pub(crate) async fn enter(
        &self,
        guards: &Guards,
        caller: Option<&Caller<'_>>,
        priority: Priority,
    ) -> Result<Permits, Outcome> {
        let guarded = self.guarded(guards, caller);
        let entered = guards.enter(guarded.as_ref().or(caller), priority).await;
        entered.inspect_err(|outcome| self.tell(caller, outcome))
    }

    /// The same without waiting. None when it has to be waited for; nothing was done then.
    #[cfg(feature = "http")]
    pub(crate) fn enter_now(
        &self,
        guards: &Guards,
        caller: Option<&Caller<'_>>,
        priority: Priority,
    ) -> Option<Result<Permits, Outcome>> {
        let guarded = self.guarded(guards, caller);
        let entered = guards.enter_now(guarded.as_ref().or(caller), priority)?;
        Some(entered.inspect_err(|outcome| self.tell(caller, outcome)))
    }

    /// Whom guards see where the first limit makes keys alike: who is one to that is one to them.
    fn guarded(&self, guards: &Guards, caller: Option<&Caller<'_>>) -> Option<Caller<'static>> {
        let rule = self.inner.rules.first().filter(|_| guards.look_at_keys())?;
        rule.counted(&self.inner.limiter, caller?).map(Caller::new)
    }

    fn tell(&self, caller: Option<&Caller<'_>>, outcome: &Outcome) {
        match caller {
            Some(caller) => self.inner.hooks.tell(caller, outcome),
            None => self.inner.hooks.tell(&Caller::each([]), outcome),
        }
    }

    /// Whether there is any limit.
    pub(crate) fn has_limits(&self) -> bool {
        !self.inner.rules.is_empty()
    }

    /// How a limit is asked for a step. In shadow mode a charge makes no debt: who was let through would have been denied, and
    /// would have taken nothing.
    #[inline]
    fn step(&self, step: Step) -> Step {
        if step == Step::Charge && self.inner.shadow { Step::Take } else { step }
    }

    /// What a request that costs so much takes from a limit.
    #[inline]
    fn cost_to(&self, rule: &Rule, cost: u64) -> u64 {
        if self.inner.has_budget && rule.axis == Axis::Rate { 1 } else { cost }
    }

    async fn ask_one(&self, rule: &Rule, caller: &Caller<'_>, cost: u64, step: Step) -> Result<Ruling, Error> {
        let limiter = &self.inner.limiter;
        if !caller.fits(1) {
            return Err(Error::NoKey);
        }
        let decision = rule.question(limiter, caller, 0, self.cost_to(rule, cost), self.step(step))?.call().await?;
        rule.ruling(limiter, decision)
    }

    /// The same of several limits. They are asked as if they were waited for: whoever answers everything at once does so
    /// here.
    #[inline(never)]
    fn ask_several_now(&self, caller: &Caller<'_>, cost: u64, step: Step) -> Option<Outcome> {
        if !self.inner.limiter.answers_at_once() {
            return None;
        }
        Some(self.finish(caller, cost, step, at_once(self.ask_several(caller, cost, step))))
    }

    async fn ask_several(&self, caller: &Caller<'_>, cost: u64, step: Step) -> Result<Rulings, Error> {
        let Inner { limiter, rules, .. } = &*self.inner;
        if !caller.fits(rules.len()) {
            return Err(Error::NoKey);
        }
        let call = |(index, rule)| {
            let cost = self.cost_to(rule, cost);
            Ok(Rule::question(rule, limiter, caller, index, cost, self.step(step))?.call())
        };
        let calls = rules.iter().enumerate().map(call).collect::<Result<Few<_>, Error>>()?;
        if step == Step::Take {
            let all = limiter.all_of(&calls).await?;
            let decided = rules.iter().zip(all.decisions());
            let rulings = decided.map(|(rule, decision)| rule.ruling(limiter, *decision)).collect::<Result<_, _>>();
            return rulings.map(Rulings::several);
        }
        let (mut rulings, mut failed) = (Few::with_capacity(calls.len()), None);
        for (rule, call) in rules.iter().zip(calls) {
            match call.await {
                Ok(decision) => rulings.push(rule.ruling(limiter, decision)?),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        // A denial stands, whatever became of the other limits.
        match failed {
            Some(error) if rulings.iter().all(|ruling| ruling.decision().allowed()) => Err(error),
            _ => Ok(Rulings::several(rulings.into_iter().collect())),
        }
    }

    #[inline(never)] // apart from the ordinary yes
    pub(super) fn finish(&self, caller: &Caller<'_>, cost: u64, step: Step, answer: Result<Rulings, Error>) -> Outcome {
        let Inner { limiter, rules, shadow, hooks, .. } = &*self.inner;
        // Nobody is turned away by the others.
        let is_asked = matches!(step, Step::Take | Step::Look);
        let cost = |rule: &Rule| if is_asked { self.cost_to(rule, cost) } else { 0 };
        let outcome = match answer {
            Ok(rulings) if *shadow => Outcome::of(rulings.shadowed()),
            Ok(rulings) => Outcome::of(rulings),
            Err(error) => failed(limiter, rules, cost, *shadow, error),
        };
        if is_asked || outcome.error().is_some() || outcome.is_without_store() {
            hooks.tell(caller, &outcome);
        }
        outcome
    }

    fn change(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.inner)
    }

    fn last(&mut self) -> &mut Rule {
        self.change().rules.last_mut().expect("a limit was given before")
    }
}

impl From<Quota> for Enforcer {
    fn from(quota: Quota) -> Self {
        Enforcer::of(quota)
    }
}

impl From<(&Limiter, &str)> for Enforcer {
    fn from((limiter, limit): (&Limiter, &str)) -> Self {
        Enforcer::new(limiter, limit)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_small_however_many_limits_there_are() {
        let enforcer = Enforcer::of(Quota::token_bucket(1, std::time::Duration::from_secs(1)).unwrap());
        let caller = Caller::new("alice");
        // It goes along with every request that waits, and what several limits work with is some kilobytes.
        let asked = size_of_val(&enforcer.ask(&caller, 1, Step::Take));
        let all = size_of_val(&enforcer.limiter().all([enforcer.limiter().limit("default", "alice")]));
        assert!(asked <= 1_024 && all <= 1_536, "{asked} and {all} bytes");
    }
}
