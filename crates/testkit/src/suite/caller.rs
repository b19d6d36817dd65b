//! `Caller`: calls a store about one key and asserts the decisions, for the cases.

use std::fmt;
use std::time::Duration;

use tidegate_core::{
    Cost, DecisionParts, Key, OnStoreError, Op, Quota, Request, Scope, StoreError, TestableStore, Timestamp, seconds,
};

use crate::Subject;

/// The time at which most cases begin: in November 2023, at the start of a window of ten seconds.
pub(super) const BASE: u64 = 1_700_000_000_000_000;
/// One second in microseconds.
pub(super) const SECOND: u64 = 1_000_000;

/// Returns a quota of `rate` per `period` for every algorithm, and sliding windows of several buckets.
pub(super) fn quotas(rate: u64, period: Duration) -> Vec<Quota> {
    let window = Quota::sliding_window(rate, period).expect("a valid quota");
    let finer = [5, 64].into_iter().filter_map(|buckets| window.buckets(buckets).ok());
    [
        Quota::token_bucket(rate, period).expect("a valid quota"),
        Quota::fixed_window(rate, period).expect("a valid quota"),
        window,
        Quota::sliding_log(rate, period).expect("a valid quota"),
    ]
    .into_iter()
    .chain(finer)
    .collect()
}

/// Returns the quotas of most cases: 10 per 10 seconds, for every algorithm.
pub(super) fn standard_quotas() -> Vec<Quota> {
    quotas(10, seconds(10))
}

/// Returns a short name of a quota, for scopes and messages.
pub(super) fn label(quota: &Quota) -> String {
    match quota.parts().buckets {
        1 => quota.algorithm().to_string(),
        buckets => format!("{}_{buckets}", quota.algorithm()),
    }
}

pub(super) fn cost(units: u64) -> Cost {
    Cost::new(units).expect("cases ask for at least 1")
}

/// Returns a time plus the span of a decision.
pub(super) fn time_after(at: u64, span: Option<u64>) -> u64 {
    at + span.expect("a span was expected and none came")
}

/// A caller of one key of one limit under one quota, through the testing entry.
pub(super) struct Caller<'a, S> {
    pub(super) subject: &'a Subject<S>,
    pub(super) scope: Scope,
    pub(super) key: Key<'static>,
    pub(super) quota: Quota,
}

impl<S> fmt::Display for Caller<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}), key {:?}", label(&self.quota), self.quota, self.key.to_text())
    }
}

impl<'a, S: TestableStore + 'static> Caller<'a, S> {
    /// Creates a caller with a limit of its own.
    pub(super) fn new(subject: &'a Subject<S>, case: &str, quota: Quota) -> Self {
        let scope = subject.scope(case, &label(&quota));
        Caller { subject, scope, key: Key::from("k"), quota }
    }

    /// Returns a caller of another key of this limit.
    pub(super) fn with_key(&self, key: impl Into<Key<'static>>) -> Self {
        Caller { subject: self.subject, scope: self.scope.clone(), key: key.into(), quota: self.quota }
    }

    /// Returns a caller of this key under another quota.
    pub(super) fn with_quota(&self, quota: Quota) -> Self {
        Caller { subject: self.subject, scope: self.scope.clone(), key: self.key.clone(), quota }
    }

    /// Returns a caller of this key in another scope.
    pub(super) fn with_scope(&self, scope: Scope) -> Self {
        Caller { subject: self.subject, scope, key: self.key.clone(), quota: self.quota }
    }

    pub(super) fn request(&self, op: Op) -> Request<'_> {
        Request { scope: &self.scope, key: &self.key, quota: &self.quota, op, on_store_error: OnStoreError::default() }
    }

    pub(super) async fn apply(&self, op: Op, at: u64) -> DecisionParts {
        let result = self.subject.store().apply_at(&self.request(op), Timestamp::from_micros(at)).await;
        self.expect(result, op).into_parts()
    }

    /// Returns the result of a call that must succeed.
    pub(super) fn expect<T>(&self, result: Result<T, StoreError>, op: Op) -> T {
        result.unwrap_or_else(|error| panic!("{self}: {op:?}: the store failed: {error}"))
    }

    pub(super) async fn limit(&self, units: u64, at: u64) -> DecisionParts {
        self.apply(Op::Limit(cost(units)), at).await
    }

    pub(super) async fn check(&self, units: u64, at: u64) -> DecisionParts {
        self.apply(Op::Check(cost(units)), at).await
    }

    pub(super) async fn reserve(&self, units: u64, at: u64) -> DecisionParts {
        self.apply(Op::Reserve(cost(units)), at).await
    }

    pub(super) async fn refund(&self, units: u64, at: u64) -> DecisionParts {
        self.apply(Op::Refund(cost(units)), at).await
    }

    /// Takes units, and expects to be allowed.
    pub(super) async fn expect_allowed(&self, units: u64, at: u64) -> DecisionParts {
        let decision = self.limit(units, at).await;
        assert!(decision.allowed, "{self}: taking {units} at {at} should be allowed, got {decision:?}");
        decision
    }

    /// Takes units, and expects to be denied.
    pub(super) async fn expect_denied(&self, units: u64, at: u64) -> DecisionParts {
        let decision = self.limit(units, at).await;
        assert!(!decision.allowed, "{self}: taking {units} at {at} should be denied, got {decision:?}");
        decision
    }

    /// Checks, and expects `remaining` units to be left.
    pub(super) async fn expect_remaining(&self, remaining: u64, at: u64, step: &str) -> DecisionParts {
        let decision = self.check(1, at).await;
        assert_eq!(u64::from(decision.remaining), remaining, "{self}: {step}: remaining at {at}, in {decision:?}");
        decision
    }

    /// Expects that `op`, denied at `now` with this decision, is allowed after its `retry_after` and not a microsecond
    /// earlier. Applies `op` at that time, and returns the time.
    pub(super) async fn expect_retry(&self, op: Op, refused: DecisionParts, now: u64) -> u64 {
        assert!(!refused.allowed, "{self}: {op:?} at {now} should be refused, got {refused:?}");
        let retry = time_after(now, refused.retry_after);
        assert!(retry > now, "{self}: {op:?} was refused at {now} with a retry at once: {refused:?}");
        let early = self.apply(op, retry - 1).await;
        assert!(!early.allowed, "{self}: {op:?} is allowed a microsecond before its retry at {retry}: {early:?}");
        let retried = self.apply(op, retry).await;
        assert!(retried.allowed, "{self}: {op:?} refused at {now}, refused again at its retry {retry}: {retried:?}");
        retry
    }
}

/// Returns a quota of another rate, with the algorithm, shape and period of this one.
pub(super) fn with_rate(rate: u64, quota: &Quota) -> Quota {
    let other = quotas(rate, quota.parts().period).into_iter().find(|other| label(other) == label(quota));
    other.expect("the same algorithms at every rate")
}
