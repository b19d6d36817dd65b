//! Cases about joint requests, batches, and immediate answers.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use tidegate_core::{
    Cost, Decision, JointDecision, MAX_PERIOD, Op, Reason, Store, StoreErrorKind, TestableStore, Timestamp, seconds,
};

use super::caller::{BASE, Caller, SECOND, cost, quotas, standard_quotas, with_rate};
use crate::{Applicability, Subject};

/// A caller and the units it limits.
type LimitCall<'c, 'a, S> = (&'c Caller<'a, S>, u64);

async fn limit_all_at<S: TestableStore + 'static>(calls: &[LimitCall<'_, '_, S>], at: u64) -> JointDecision {
    let requests: Vec<_> = calls.iter().map(|(caller, units)| caller.request(Op::Limit(cost(*units)))).collect();
    let (caller, units) = calls[0];
    let result = caller.subject.store().apply_all_at(&requests, Timestamp::from_micros(at)).await;
    let all = caller.expect(result, Op::Limit(cost(units)));
    assert_eq!(all.decisions().len(), calls.len(), "{caller}: one decision for each request");
    all
}

fn remaining(all: &JointDecision) -> Vec<u64> {
    all.decisions().iter().map(|decision| decision.remaining()).collect()
}

/// When every request fits, every limit is charged.
pub async fn joint_request_takes_from_every_limit<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let mut callers = Vec::new();
    for quota in standard_quotas() {
        callers.push(Caller::new(subject, "joint_request_takes_from_every_limit", quota));
    }
    let calls: Vec<_> = callers.iter().zip(1..).collect();
    let all = limit_all_at(&calls, BASE).await;
    assert!(all.allowed(), "every limit is new: {all:?}");
    assert_eq!(all.retry_after(), None, "allowed: {all:?}");
    for ((caller, units), decision) in calls.iter().zip(all.decisions()) {
        assert_eq!(decision.remaining(), 10 - units, "{caller}: remaining after {units}: {decision:?}");
        caller.expect_remaining(10 - units, BASE, "after the batch").await;
    }
    Applicability::Ran
}

/// When one request is denied, no limit is charged, and the others report their remaining quota.
pub async fn denied_joint_request_consumes_nothing<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let empty = Caller::new(subject, "denied_joint_request_consumes_nothing", quota);
        let (first, last) = (empty.with_key("first"), empty.with_key("last"));
        empty.expect_allowed(8, BASE).await;
        last.expect_allowed(1, BASE).await;
        for (denied, reason) in [(3, Reason::Rate), (11, Reason::CostExceedsCapacity)] {
            let all = limit_all_at(&[(&first, 5), (&empty, denied), (&last, 5)], BASE).await;
            assert!(!all.allowed(), "{empty}: {denied} of 2: {all:?}");
            let allowed: Vec<bool> = all.decisions().iter().map(|decision| decision.allowed()).collect();
            assert_eq!(allowed, [true, false, true], "{empty}: which would have been allowed: {all:?}");
            assert_eq!(remaining(&all), [10, 2, 9], "{empty}: nothing taken, so what each has: {all:?}");
            assert_eq!(all.decisions()[1].reason(), Some(reason), "{empty}: reason: {all:?}");
        }
        first.expect_remaining(10, BASE, "after a denied batch").await;
        empty.expect_remaining(2, BASE, "after a denied batch").await;
        last.expect_remaining(9, BASE, "after a denied batch").await;
    }
    Applicability::Ran
}

/// A denied batch passes as a whole after its `retry_after`, and not a microsecond earlier.
pub async fn joint_retry_after_is_honest<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let sooner = Caller::new(subject, "joint_retry_after_is_honest", quota);
        let later = sooner.with_key("later");
        sooner.expect_allowed(8, BASE).await;
        later.expect_allowed(8, BASE + 2 * SECOND).await;
        let now = BASE + 3 * SECOND;
        let calls = [(&sooner, 6), (&later, 8)];
        let all = limit_all_at(&calls, now).await;
        assert!(!all.allowed(), "{sooner}: more than there is: {all:?}");
        let wait = all.retry_after().expect("both can pass in time").as_micros() as u64;
        let waits = all.decisions().iter().map(|decision| decision.retry_after());
        assert_eq!(all.retry_after(), waits.max().flatten(), "{sooner}: the longest wait: {all:?}");
        let early = limit_all_at(&calls, now + wait - 1).await;
        assert!(!early.allowed(), "{sooner}: a microsecond early: {early:?}");
        let passed = limit_all_at(&calls, now + wait).await;
        assert!(passed.allowed(), "{sooner}: after {wait} us: {passed:?}");
        // With a request that can never succeed, no wait helps.
        let never = limit_all_at(&[(&sooner, 10), (&later, 11)], now + wait).await;
        assert_eq!((never.allowed(), never.retry_after()), (false, None), "{sooner}: 11 of 10: {never:?}");
    }
    Applicability::Ran
}

/// Repeated limits and keys are applied in order, and judged by the sum.
pub async fn joint_request_sums_repeated_keys<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "joint_request_sums_repeated_keys", quota);
        let other = caller.with_key("other");
        let never = limit_all_at(&[(&caller, 6), (&other, 1), (&caller, 6)], BASE).await;
        assert_eq!((never.allowed(), never.retry_after()), (false, None), "{caller}: 12 of 10: {never:?}");
        assert_eq!(never.decisions()[2].reason(), Some(Reason::CostExceedsCapacity), "{caller}: {never:?}");
        assert_eq!(remaining(&never), [10, 10, 10], "{caller}: nothing taken: {never:?}");

        let both = limit_all_at(&[(&caller, 3), (&other, 1), (&caller, 4)], BASE).await;
        assert!(both.allowed(), "{caller}: 7 of 10: {both:?}");
        assert_eq!(remaining(&both), [7, 9, 3], "{caller}: taken in order: {both:?}");

        let calls = [(&caller, 2), (&caller, 2)];
        let denied = limit_all_at(&calls, BASE).await;
        let allowed: Vec<bool> = denied.decisions().iter().map(|decision| decision.allowed()).collect();
        assert_eq!(allowed, [true, false], "{caller}: 2 fit, 4 do not: {denied:?}");
        assert_eq!(remaining(&denied), [3, 3], "{caller}: nothing taken: {denied:?}");
        let wait = denied.retry_after().expect("4 fit in time").as_micros() as u64;
        assert!(!limit_all_at(&calls, BASE + wait - 1).await.allowed(), "{caller}: a microsecond before {wait}");
        assert!(limit_all_at(&calls, BASE + wait).await.allowed(), "{caller}: after {wait} us the sum fits");
    }
    Applicability::Ran
}

/// Every operation except `limit` is unsupported, and nothing is taken.
pub async fn joint_request_rejects_other_operations<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in standard_quotas() {
        let first = Caller::new(subject, "joint_request_rejects_other_operations", quota);
        let second = first.with_key("second");
        second.expect_allowed(4, BASE).await;
        for op in [Op::Check(Cost::ONE), Op::Reserve(Cost::ONE), Op::Refund(Cost::ONE), Op::Reset] {
            let limit = first.request(Op::Limit(Cost::ONE));
            for requests in [[limit, second.request(op)], [second.request(op), limit]] {
                let at = Timestamp::from_micros(BASE);
                let results =
                    [subject.store().apply_all_at(&requests, at).await, subject.store().apply_all(&requests).await];
                for result in results {
                    let kind = result.map_err(|error| error.kind());
                    assert_eq!(kind, Err(StoreErrorKind::Unsupported), "{first}: {op:?} in a batch");
                }
                first.expect_remaining(10, BASE, "after a refused batch").await;
                second.expect_remaining(6, BASE, "after a refused batch").await;
            }
        }
    }
    Applicability::Ran
}

/// A joint request counts the usage of a key under its earlier quota.
pub async fn joint_request_keeps_usage_of_a_changed_quota<S: TestableStore + 'static>(
    subject: &Subject<S>,
) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "joint_request_keeps_usage_of_a_changed_quota", quota);
        let (raised, cut) = (caller.with_quota(with_rate(20, &quota)), caller.with_quota(with_rate(5, &quota)));
        let other = caller.with_key("other");
        caller.expect_allowed(7, BASE).await;
        let denied = limit_all_at(&[(&cut, 1), (&other, 1)], BASE).await;
        assert!(!denied.allowed(), "{cut}: 7 of 10 used, now 5: {denied:?}");
        assert_eq!(remaining(&denied), [0, 10], "{cut}: nothing taken: {denied:?}");
        let all = limit_all_at(&[(&raised, 13), (&other, 1)], BASE).await;
        assert!(all.allowed(), "{raised}: 7 of 10 used, now 20: {all:?}");
        assert_eq!(remaining(&all), [0, 9], "{raised}: 20 used: {all:?}");
    }
    Applicability::Ran
}

/// A batch with one key under two quotas is unsupported, and nothing is taken.
pub async fn joint_request_rejects_one_key_under_two_quotas<S: TestableStore + 'static>(
    subject: &Subject<S>,
) -> Applicability {
    for quota in standard_quotas() {
        let caller = Caller::new(subject, "joint_request_rejects_one_key_under_two_quotas", quota);
        let raised = caller.with_quota(with_rate(20, &quota));
        let requests = [caller.request(Op::Limit(Cost::ONE)), raised.request(Op::Limit(Cost::ONE))];
        let at = Timestamp::from_micros(BASE);
        for result in [subject.store().apply_all_at(&requests, at).await, subject.store().apply_all(&requests).await] {
            let kind = result.map_err(|error| error.kind());
            assert_eq!(kind, Err(StoreErrorKind::Unsupported), "{caller}: and another quota");
        }
        caller.expect_remaining(10, BASE, "after a refused batch").await;
    }
    Applicability::Ran
}

/// An empty batch is allowed and has no decisions.
pub async fn empty_batches_are_allowed<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let at = Timestamp::from_micros(BASE);
    for result in [subject.store().apply_all_at(&[], at).await, subject.store().apply_all(&[]).await] {
        let all = result.unwrap_or_else(|error| panic!("an empty batch failed: {error}"));
        assert!(all.allowed() && all.decisions().is_empty(), "an empty batch: {all:?}");
    }
    assert!(subject.store().apply_each(&[]).await.is_empty(), "no request, no decision");
    Applicability::Ran
}

/// Independent requests in one call are applied in order, each on its own.
pub async fn batch_is_applied_in_order<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in quotas(10, MAX_PERIOD) {
        let caller = Caller::new(subject, "batch_is_applied_in_order", quota);
        let other = caller.with_key("other");
        let steps = [
            (&caller, Op::Limit(cost(6)), true, 4),
            (&other, Op::Limit(cost(1)), true, 9),
            (&caller, Op::Check(cost(1)), true, 4),
            (&caller, Op::Limit(cost(6)), false, 4),
            (&caller, Op::Limit(cost(11)), false, 4),
            (&caller, Op::Refund(cost(3)), true, 7),
            (&caller, Op::Limit(cost(6)), true, 1),
            (&caller, Op::Reserve(cost(5)), true, 0),
            (&other, Op::Limit(cost(9)), true, 0),
            (&caller, Op::Reset, true, 10),
            (&caller, Op::Limit(cost(2)), true, 8),
        ];
        let requests: Vec<_> = steps.iter().map(|(caller, op, ..)| caller.request(*op)).collect();
        let results = subject.store().apply_each(&requests).await;
        assert_eq!(results.len(), steps.len(), "{caller}: one decision for each request");
        for (n, (result, (caller, op, allowed, remaining))) in results.into_iter().zip(steps).enumerate() {
            let decision = caller.expect(result, op);
            let got = (decision.allowed(), decision.remaining());
            assert_eq!(got, (allowed, remaining), "{caller}: request {n}, {op:?}: {decision:?}");
        }
    }
    Applicability::Ran
}

/// A batch that alternates one key between two quotas is applied in order, at any length.
pub async fn batch_under_two_quotas_is_applied_in_order<S: TestableStore + 'static>(
    subject: &Subject<S>,
) -> Applicability {
    for quota in quotas(50, MAX_PERIOD) {
        let larger = quotas(60, MAX_PERIOD)[0];
        let batched = Caller::new(subject, "batch_under_two_quotas_is_applied_in_order", quota);
        let single = batched.with_key("single");
        let (batched_larger, single_larger) = (batched.with_quota(larger), single.with_quota(larger));
        let mut requests = vec![batched.request(Op::Limit(cost(1)))];
        let mut expected = vec![subject.store().apply(&single.request(Op::Limit(cost(1)))).await];
        // Two of each in turn: the first is rebased, and the second follows under the same quota.
        for n in 1..130 {
            let op = if n % 9 == 0 { Op::Check(cost(1)) } else { Op::Limit(cost(1)) };
            let (caller, reference) = if n % 4 < 2 { (&batched_larger, &single_larger) } else { (&batched, &single) };
            requests.push(caller.request(op));
            expected.push(subject.store().apply(&reference.request(op)).await);
        }
        // The key is known under the first quota before the others come.
        let first = subject.store().apply_each(&requests[..1]).await;
        let results = first.into_iter().chain(subject.store().apply_each(&requests[1..]).await);
        for (n, (result, expected)) in results.zip(expected).enumerate() {
            let [decision, expected] = [result, expected].map(|result| batched.expect(result, requests[n].op));
            let [got, expected] = [decision, expected].map(|decision| (decision.allowed(), decision.remaining()));
            assert_eq!(got, expected, "{batched}: request {n}: {:?}", requests[n]);
        }
    }
    Applicability::Ran
}

/// `try_apply` decides as `apply` does, about the same state. Otherwise it returns `None` and has done nothing.
pub async fn try_apply_agrees_with_apply<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for quota in quotas(10, seconds(86_400 * 300)) {
        let caller = Caller::new(subject, "try_apply_agrees_with_apply", quota);
        let mut used = 0;
        for (n, op) in [3, 4].into_iter().flat_map(|units| [Op::Limit(cost(units)), Op::Check(cost(2))]).enumerate() {
            let taken = if let Op::Limit(units) = op { units.get() } else { 0 };
            let allowed = used + taken <= 10;
            let mut expect = |decision: Decision, by: &str| {
                used += taken;
                let got = (decision.allowed(), decision.remaining());
                assert_eq!(got, (allowed, 10 - used), "{caller}: step {n}, {op:?} by {by}: {decision:?}");
            };
            if let Some(result) = subject.store().try_apply(&caller.request(op)) {
                expect(caller.expect(result, op), "try_apply");
            } else {
                expect(caller.expect(subject.store().apply(&caller.request(op)).await, op), "apply after try_apply");
            }
        }
        let op = Op::Limit(cost(3));
        let decision = caller.expect(subject.store().apply(&caller.request(op)).await, op);
        assert_eq!(decision.remaining(), 0, "{caller}: 7 taken before, and 3 by apply: {decision:?}");
        if let Some(result) = subject.store().try_apply(&caller.request(Op::Limit(cost(1)))) {
            let decision = caller.expect(result, op);
            assert!(!decision.allowed(), "{caller}: try_apply after all was taken: {decision:?}");
        }
    }
    Applicability::Ran
}

/// A store that claims to be immediate is immediate: every future is ready at its first poll, and `try_apply` always
/// returns a result. This holds for new keys, known keys and denials.
pub async fn immediate_store_never_waits<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let store = subject.store();
    if !store.is_immediate() {
        return Applicability::NotApplicable("the store does not claim to be immediate");
    }
    for quota in quotas(10, MAX_PERIOD) {
        let caller = Caller::new(subject, "immediate_store_never_waits", quota);
        for op in
            [Op::Limit(cost(6)), Op::Limit(cost(6)), Op::Check(cost(1)), Op::Refund(cost(1)), Op::Reserve(cost(1))]
        {
            let request = caller.request(op);
            assert!(store.try_apply(&request).is_some(), "{caller}: {op:?} by try_apply");
            assert!(is_ready(store.apply(&request)), "{caller}: {op:?} by apply");
            assert!(is_ready(store.apply_each(&[request, request])), "{caller}: {op:?} by apply_each");
        }
        let request = caller.request(Op::Limit(cost(1)));
        for requests in [&[][..], &[request], &[request, request]] {
            assert!(is_ready(store.apply_all(requests)), "{caller}: {} by apply_all", requests.len());
        }
        let reset = caller.request(Op::Reset);
        assert!(store.try_apply(&reset).is_some() && is_ready(store.apply(&reset)), "{caller}: a reset");
    }
    Applicability::Ran
}

fn is_ready(future: impl Future) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}
