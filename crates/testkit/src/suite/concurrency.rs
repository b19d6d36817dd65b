//! Cases with many concurrent callers.
//!
//! They run on the store's own clock, with quotas of a year, so that nothing refills during a case.

use std::sync::Arc;

use tidegate_core::{Key, MAX_PERIOD, OnStoreError, Op, Quota, Request, Scope, Store, TestableStore};

use super::caller::{Caller, cost, quotas};
use crate::{Applicability, Subject};

const CALLERS: usize = 200;

/// Hundreds of concurrent callers together get exactly the capacity.
pub async fn concurrent_callers_never_double_spend<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in quotas(100, MAX_PERIOD) {
        let caller = Caller::new(subject, "concurrent_callers_never_double_spend", quota);
        let admitted: u64 = limit_concurrently(&caller, |_| 1, 2).iter().map(|(admitted, _)| admitted).sum();
        assert_eq!(admitted, 100, "{caller}: admitted to {CALLERS} callers who ask twice for 1 of 100");
        let left = caller.subject.store().apply(&caller.request(Op::Check(cost(1)))).await;
        assert_eq!(caller.expect(left, Op::Check(cost(1))).remaining(), 0, "{caller}: remaining in the end");
    }
    Applicability::Ran
}

/// Hundreds of concurrent callers with different costs together get no more than the capacity, and as much as fits.
pub async fn concurrent_weighted_callers_never_double_spend<S: TestableStore + 'static>(
    subject: &Subject<S>,
) -> Applicability {
    for quota in quotas(503, MAX_PERIOD) {
        let caller = Caller::new(subject, "concurrent_weighted_callers_never_double_spend", quota);
        let results = limit_concurrently(&caller, |index| 1 + index as u64 % 7, 2);
        let admitted: u64 = results.iter().map(|(admitted, _)| admitted).sum();
        let least_denied = results.iter().filter_map(|(_, denied)| *denied).min();
        assert!(admitted <= 503, "{caller}: {admitted} admitted of 503");
        let left = caller.subject.store().apply(&caller.request(Op::Check(cost(1)))).await;
        let left = caller.expect(left, Op::Check(cost(1))).remaining();
        assert_eq!(left, 503 - admitted, "{caller}: remaining after {admitted} of 503 were admitted");
        let least_denied = least_denied.expect("more was asked for than there is");
        assert!(left < least_denied, "{caller}: {least_denied} was denied though {left} is left in the end");
    }
    Applicability::Ran
}

/// Limits from many threads at once. Returns the units admitted to each caller, and the denied units, if any.
fn limit_concurrently<S: TestableStore + 'static>(
    caller: &Caller<'_, S>,
    units: impl Fn(usize) -> u64,
    calls: usize,
) -> Vec<(u64, Option<u64>)> {
    caller.subject.run_concurrently(CALLERS, |index, store| {
        let (owned, units) = (OwnedCaller::new(caller), units(index));
        async move {
            let (mut admitted, mut denied) = (0, None);
            for _ in 0..calls {
                match owned.limit(&*store, units).await {
                    true => admitted += units,
                    false => denied = Some(units),
                }
            }
            (admitted, denied)
        }
    })
}

/// A caller that can be sent to another thread.
#[derive(Clone)]
pub(super) struct OwnedCaller {
    scope: Scope,
    key: Key<'static>,
    quota: Quota,
}

impl OwnedCaller {
    pub(super) fn new<S>(caller: &Caller<'_, S>) -> Self {
        OwnedCaller { scope: caller.scope.clone(), key: caller.key.clone(), quota: caller.quota }
    }

    pub(super) fn request(&self, op: Op) -> Request<'_> {
        Request { scope: &self.scope, key: &self.key, quota: &self.quota, op, on_store_error: OnStoreError::default() }
    }

    /// Limits by the store's own clock. Returns whether it is allowed.
    pub(super) async fn limit<S: Store>(&self, store: &S, units: u64) -> bool {
        self.apply(store, Op::Limit(cost(units))).await
    }

    /// Checks by the store's own clock. Returns whether it would be allowed.
    pub(super) async fn check<S: Store>(&self, store: &S, units: u64) -> bool {
        self.apply(store, Op::Check(cost(units))).await
    }

    /// Applies any operation by the store's own clock. Returns whether it is allowed.
    pub(super) async fn apply<S: Store>(&self, store: &S, op: Op) -> bool {
        let decision = store.apply(&self.request(op)).await;
        decision.unwrap_or_else(|error| panic!("{:?}: the store failed: {error}", self.scope)).allowed()
    }
}

/// Some concurrent callers take from two limits at once, in both orders, and others take from one. The units taken add
/// up.
pub async fn joint_requests_are_atomic_under_concurrency<S: TestableStore + 'static>(
    subject: &Subject<S>,
) -> Applicability {
    if !subject.store().capabilities().atomic_all {
        return Applicability::NotApplicable("the store does not claim atomic_all");
    }
    for quota in quotas(60, MAX_PERIOD) {
        let caller = Caller::new(subject, "joint_requests_are_atomic_under_concurrency", quota);
        let keys = Arc::new(["a", "b"].map(|key| OwnedCaller::new(&caller.with_key(key))));
        let taken = subject.run_concurrently(CALLERS, |index, store| {
            let keys = keys.clone();
            async move {
                // Twice in one order, twice in the other, and once from each alone.
                let order: &[usize] = [&[0, 1][..], &[1, 0], &[0], &[0, 1], &[1, 0], &[1]][index % 6];
                let requests: Vec<_> = order.iter().map(|&key| keys[key].request(Op::Limit(cost(1)))).collect();
                let all = store.apply_all(&requests).await.unwrap_or_else(|error| panic!("the store failed: {error}"));
                let taken = u64::from(all.allowed());
                [taken * u64::from(order.contains(&0)), taken * u64::from(order.contains(&1))]
            }
        });
        let mut left = [0; 2];
        for (key, left) in left.iter_mut().enumerate() {
            let sum: u64 = taken.iter().map(|taken| taken[key]).sum();
            assert!(sum <= 60, "{caller}: {sum} of 60 admitted to key number {key}");
            let op = Op::Check(cost(1));
            let look = caller.expect(subject.store().apply(&keys[key].request(op)).await, op);
            assert_eq!(look.remaining(), 60 - sum, "{caller}: key number {key} after {sum} of 60 were admitted");
            *left = look.remaining();
        }
        // The demand exceeds the quota, so only a lack of quota may deny a caller.
        assert_eq!(left.iter().min(), Some(&0), "{caller}: a caller was denied though both keys had quota left");
    }
    Applicability::Ran
}
