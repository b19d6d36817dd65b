//! Cases about leases in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{
    Cost, DecisionParts, Lease, MAX_PERIOD, Op, Quota, Reason, Store, StoreErrorKind, TestableStore, Timestamp, seconds,
};

use super::caller::{BASE, Caller, SECOND, cost, standard_quotas, time_after};
use super::concurrency::OwnedCaller;
use crate::{Applicability, Subject};

/// The time to live of a lease in most cases.
const TTL: u64 = 10 * SECOND;

fn concurrency_quota(capacity: u64) -> Quota {
    Quota::concurrency(capacity, seconds(10)).expect("a valid quota")
}

fn lease(bits: u64) -> Lease {
    Lease::from_bits(bits)
}

impl<S: TestableStore + 'static> Caller<'_, S> {
    async fn admit(&self, bits: u64, at: u64) -> DecisionParts {
        self.apply(Op::Admit(lease(bits)), at).await
    }

    async fn renew(&self, bits: u64, at: u64) -> DecisionParts {
        self.apply(Op::Renew(lease(bits)), at).await
    }

    async fn release(&self, bits: u64, at: u64) -> DecisionParts {
        self.apply(Op::Release(lease(bits)), at).await
    }

    /// Admits, and expects to be allowed.
    async fn expect_admitted(&self, bits: u64, at: u64) -> DecisionParts {
        let decision = self.admit(bits, at).await;
        assert!(decision.allowed, "{self}: lease {bits} at {at} should be admitted, got {decision:?}");
        decision
    }

    /// Applies an operation on a lease that is gone, and expects a denial without a retry time.
    async fn expect_gone(&self, op: Op, at: u64, step: &str) {
        let decision = self.apply(op, at).await;
        let got = (decision.allowed, decision.retry_after, decision.reason);
        assert_eq!(got, (false, None, Some(Reason::Concurrency)), "{self}: {step}: {op:?} at {at}: {decision:?}");
    }
}

/// As many leases as the capacity are admitted, not one more, and the decisions report the free places.
pub async fn leases_are_admitted_up_to_the_capacity<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    for capacity in [1, 3, 40] {
        let caller = Caller::new(
            subject,
            &format!("leases_are_admitted_up_to_the_capacity{capacity}"),
            concurrency_quota(capacity),
        );
        for n in 0..capacity {
            let decision = caller.expect_admitted(n, BASE + n).await;
            let fields = (decision.remaining, decision.limit, decision.retry_after, decision.reason);
            let expected = ((capacity - n - 1) as u32, capacity as u32, None, None);
            assert_eq!(fields, expected, "{caller}: lease {n} of {capacity}: {decision:?}");
            let spans = (decision.next_after, decision.reset_after);
            assert_eq!(spans, (Some(TTL - n), TTL), "{caller}: the first and the last expire: {decision:?}");
        }
        for n in 0..3 {
            let denied = caller.admit(capacity + n, BASE + capacity).await;
            let fields = (denied.allowed, denied.remaining, denied.reason);
            assert_eq!(fields, (false, 0, Some(Reason::Concurrency)), "{caller}: one too many: {denied:?}");
            assert_eq!(denied.retry_after, Some(TTL - capacity), "{caller}: until the first expires: {denied:?}");
        }
        let decision = caller.release(0, BASE + capacity).await;
        assert_eq!((decision.allowed, decision.remaining), (true, 1), "{caller}: one released: {decision:?}");
        caller.expect_admitted(capacity, BASE + capacity).await;
    }
    Applicability::Ran
}

/// `apply`, `apply_each` and `try_apply` decide leases alike and in order, on the store's own clock.
pub async fn every_store_method_decides_leases_alike<S: TestableStore + 'static>(
    subject: &Subject<S>,
) -> Applicability {
    let quota = Quota::concurrency(2, MAX_PERIOD).expect("a valid quota");
    let steps = [
        (Op::Admit(lease(1)), true, 1),
        (Op::Admit(lease(2)), true, 0),
        (Op::Admit(lease(3)), false, 0),
        (Op::Renew(lease(1)), true, 0),
        (Op::Release(lease(2)), true, 1),
        (Op::Renew(lease(2)), false, 1),
        (Op::Admit(lease(3)), true, 0),
        (Op::Reset, true, 2),
        (Op::Admit(lease(4)), true, 1),
    ];
    let store = subject.store();
    for method in ["apply", "apply_each", "try_apply"] {
        let caller = Caller::new(subject, "every_store_method_decides_leases_alike", quota).with_key(method);
        let requests = steps.map(|(op, ..)| caller.request(op));
        let results = match method {
            "apply_each" => store.apply_each(&requests).await,
            _ => {
                let mut results = Vec::new();
                for request in &requests {
                    let immediate = if method == "try_apply" { store.try_apply(request) } else { None };
                    results.push(match immediate {
                        Some(result) => result,
                        None => store.apply(request).await,
                    });
                }
                results
            }
        };
        assert_eq!(results.len(), steps.len(), "{caller}: one decision for each request");
        for (result, (op, allowed, remaining)) in results.into_iter().zip(steps) {
            let decision = caller.expect(result, op);
            let got = (decision.allowed(), decision.remaining());
            assert_eq!(got, (allowed, remaining), "{caller}: {op:?} by {method}: {decision:?}");
        }
    }
    Applicability::Ran
}

/// A lease expires after its time to live, and not a microsecond earlier. Without releases and renewals, `retry_after`
/// is exact.
pub async fn lease_expires_after_its_ttl<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let caller = Caller::new(subject, "lease_expires_after_its_ttl", concurrency_quota(2));
    caller.expect_admitted(1, BASE).await;
    caller.expect_admitted(2, BASE + 3 * SECOND).await;
    let now = BASE + 4 * SECOND;
    let denied = caller.admit(3, now).await;
    assert_eq!(time_after(now, denied.retry_after), BASE + TTL, "{caller}: {denied:?}");
    assert_eq!(caller.expect_retry(Op::Admit(lease(3)), denied, now).await, BASE + TTL, "{caller}");
    caller.expect_gone(Op::Renew(lease(1)), BASE + TTL, "it has expired").await;
    // A wait for several places ends when that many leases have expired.
    let two = caller.check(2, BASE + TTL).await;
    assert_eq!(time_after(BASE + TTL, two.retry_after), BASE + 2 * TTL, "{caller}: both are free then: {two:?}");
    caller.expect_remaining(1, BASE + TTL + 3 * SECOND, "the second has expired, too").await;
    let never = caller.check(3, BASE + TTL).await;
    assert_eq!((never.retry_after, never.reason), (None, Some(Reason::CostExceedsCapacity)), "{caller}: 3 of 2");
    let new = caller.expect_remaining(2, BASE + 2 * TTL, "all have expired").await;
    assert_eq!((new.next_after, new.reset_after), (None, 0), "{caller}: as good as new: {new:?}");
    Applicability::Ran
}

/// A renewed lease lives its whole time from the renewal, and takes no second place.
pub async fn renewing_extends_a_lease<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let caller = Caller::new(subject, "renewing_extends_a_lease", concurrency_quota(2));
    caller.expect_admitted(1, BASE).await;
    caller.expect_admitted(2, BASE + SECOND).await;
    let renewed = caller.renew(1, BASE + TTL - 1).await;
    assert_eq!((renewed.allowed, renewed.remaining), (true, 0), "{caller}: in time: {renewed:?}");
    assert_eq!(renewed.next_after, Some(SECOND + 1), "{caller}: the other one expires first now: {renewed:?}");
    assert_eq!(renewed.reset_after, TTL, "{caller}: its whole time: {renewed:?}");
    caller.expect_remaining(1, BASE + TTL + SECOND, "the other one has expired").await;
    caller.expect_remaining(1, BASE + 2 * TTL - 2, "a microsecond before it expires").await;
    caller.expect_remaining(2, BASE + 2 * TTL - 1, "renewed once").await;
    caller.expect_gone(Op::Renew(lease(1)), BASE + 2 * TTL - 1, "renewed too late").await;
    caller.expect_remaining(2, BASE + 2 * TTL - 1, "what is gone is not taken again").await;
    Applicability::Ran
}

/// A late release changes nothing: another lease has the place by then.
pub async fn late_release_changes_nothing<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let caller = Caller::new(subject, "late_release_changes_nothing", concurrency_quota(1));
    caller.expect_admitted(1, BASE).await;
    caller.expect_admitted(2, BASE + TTL).await;
    caller.expect_gone(Op::Release(lease(1)), BASE + TTL, "its place is another's").await;
    caller.expect_remaining(0, BASE + TTL, "the other one holds it").await;
    let denied = caller.admit(3, BASE + TTL).await;
    assert_eq!(denied.retry_after, Some(TTL), "{caller}: no place was given back: {denied:?}");
    caller.expect_gone(Op::Release(lease(9)), BASE + TTL, "never admitted").await;
    // This holds for a key without leases, too.
    caller.with_key("other").expect_gone(Op::Release(lease(1)), BASE, "of another key").await;
    Applicability::Ran
}

/// A lease that is released twice frees one place.
pub async fn releasing_twice_frees_one_place<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let caller = Caller::new(subject, "releasing_twice_frees_one_place", concurrency_quota(3));
    for n in 0..3 {
        caller.expect_admitted(n, BASE + n).await;
    }
    let released = caller.release(1, BASE + 3).await;
    assert_eq!((released.allowed, released.remaining), (true, 1), "{caller}: {released:?}");
    caller.expect_gone(Op::Release(lease(1)), BASE + 4, "released before").await;
    caller.expect_gone(Op::Renew(lease(1)), BASE + 4, "released before").await;
    caller.expect_remaining(1, BASE + 4, "two are in flight").await;
    Applicability::Ran
}

/// A lease that is admitted twice has one place and lives from the second time on, because its first response was lost.
pub async fn admitting_twice_takes_one_place<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let caller = Caller::new(subject, "admitting_twice_takes_one_place", concurrency_quota(2));
    caller.expect_admitted(1, BASE).await;
    let again = caller.expect_admitted(1, BASE + SECOND).await;
    assert_eq!((again.remaining, again.reset_after), (1, TTL), "{caller}: the same place: {again:?}");
    caller.expect_admitted(2, BASE + SECOND).await;
    // This holds when all places are taken, too.
    let again = caller.expect_admitted(1, BASE + 2 * SECOND).await;
    assert_eq!((again.remaining, again.next_after), (0, Some(TTL - SECOND)), "{caller}: the same place: {again:?}");
    assert!(caller.release(1, BASE + 2 * SECOND).await.allowed, "{caller}: held once");
    caller.expect_gone(Op::Release(lease(1)), BASE + 2 * SECOND, "held once").await;
    Applicability::Ran
}

/// A check and a denial write nothing, not even the time.
pub async fn lease_check_writes_nothing<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let caller = Caller::new(subject, "lease_check_writes_nothing", concurrency_quota(2));
    for units in [1, 2, 3] {
        let look = caller.check(units, BASE).await;
        assert_eq!((look.allowed, look.remaining), (units <= 2, 2), "{caller}: {units} of 2: {look:?}");
    }
    caller.expect_admitted(1, BASE).await;
    caller.expect_admitted(2, BASE).await;
    let later = BASE + 5 * SECOND;
    caller.check(1, later).await;
    caller.admit(3, later).await;
    caller.expect_gone(Op::Renew(lease(3)), later, "never admitted").await;
    caller.expect_gone(Op::Release(lease(3)), later, "never admitted").await;
    // On a clock that goes back, a later write would count.
    let renewed = caller.renew(1, BASE + SECOND).await;
    let expected = (true, Some(TTL - SECOND), TTL);
    assert_eq!((renewed.allowed, renewed.next_after, renewed.reset_after), expected, "{caller}: {renewed:?}");
    Applicability::Ran
}

/// A reset forgets every lease of one key, and of no other key.
pub async fn reset_releases_every_lease<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let caller = Caller::new(subject, "reset_releases_every_lease", concurrency_quota(2));
    let other = caller.with_key("other");
    for n in 0..2 {
        caller.expect_admitted(n, BASE).await;
        other.expect_admitted(n, BASE).await;
    }
    let new = caller.apply(Op::Reset, BASE).await;
    let fields = (new.allowed, new.remaining, new.next_after, new.reset_after);
    assert_eq!(fields, (true, 2, None, 0), "{caller}: {new:?}");
    caller.expect_gone(Op::Release(lease(0)), BASE, "forgotten").await;
    caller.expect_remaining(2, BASE, "after a reset").await;
    other.expect_remaining(0, BASE, "after another key was reset").await;
    Applicability::Ran
}

/// Leases stay when the quota changes, and expire at their old times. Beyond a smaller capacity, no lease is admitted
/// until there is room.
pub async fn quota_change_keeps_leases<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let caller = Caller::new(subject, "quota_change_keeps_leases", concurrency_quota(5));
    for n in 0..5 {
        caller.expect_admitted(n, BASE + n * SECOND).await;
    }
    let now = BASE + 5 * SECOND;
    let few = caller.with_quota(concurrency_quota(2));
    let look = few.expect_remaining(0, now, "five in flight, two allowed").await;
    // Four of them must expire before there is room for one more.
    assert_eq!(time_after(now, look.retry_after), BASE + 3 * SECOND + TTL, "{few}: {look:?}");
    assert_eq!((look.next_after, look.reset_after), (look.retry_after, TTL - SECOND), "{few}: {look:?}");
    let renewed = few.renew(0, now).await;
    assert_eq!((renewed.allowed, renewed.remaining), (true, 0), "{few}: a holder may hold on: {renewed:?}");
    assert!(!few.admit(9, now).await.allowed, "{few}: five in flight");
    for n in 1..4 {
        assert!(few.release(n, now).await.allowed, "{few}: lease {n} was kept");
    }
    assert!(!few.admit(9, now).await.allowed, "{few}: two in flight");
    let many = caller.with_quota(concurrency_quota(4));
    many.expect_remaining(2, now, "two in flight, four allowed").await;
    // A shorter time to live is for leases that are admitted or renewed from then on.
    let short = caller.with_quota(Quota::concurrency(4, seconds(1)).expect("a valid quota"));
    short.expect_admitted(8, now).await;
    short.expect_remaining(2, now + SECOND, "the short one has expired").await;
    short.expect_remaining(2, BASE + 4 * SECOND + TTL - 1, "the others have not").await;
    short.expect_remaining(3, BASE + 4 * SECOND + TTL, "one of them has").await;
    short.expect_remaining(4, now + TTL, "both have").await;
    Applicability::Ran
}

/// Leases are not units of a rate: a key that moves between the two is reset, and works under the other.
pub async fn switch_between_rate_and_leases_resets_the_key<S: TestableStore + 'static>(
    subject: &Subject<S>,
) -> Applicability {
    for rate in standard_quotas() {
        let rated = Caller::new(subject, "switch_between_rate_and_leases_resets_the_key", rate);
        let held = rated.with_quota(concurrency_quota(2));
        rated.expect_allowed(10, BASE).await;
        held.expect_remaining(2, BASE, "units are no leases").await;
        held.expect_admitted(1, BASE).await;
        held.expect_remaining(1, BASE, "one lease").await;
        assert!(held.release(1, BASE).await.allowed, "{held}: after a rate");

        let rated = rated.with_key("first leases");
        let held = rated.with_quota(concurrency_quota(2));
        held.expect_admitted(1, BASE).await;
        held.expect_admitted(2, BASE + SECOND).await;
        rated.expect_remaining(10, BASE + SECOND, "leases are no units").await;
        rated.expect_allowed(4, BASE + SECOND).await;
        rated.expect_remaining(6, BASE + SECOND, "four units").await;
    }
    Applicability::Ran
}

/// Two keys, and two limits, have separate places. A lease has a place only where it was admitted.
pub async fn keys_have_separate_leases<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let first = Caller::new(subject, "keys_have_separate_leases", concurrency_quota(1));
    let other_limit = first.with_scope(subject.scope("keys_have_separate_leases", "another"));
    let others = [first.with_key("other"), first.with_key(("k", "%l")), other_limit];
    first.expect_admitted(1, BASE).await;
    for other in &others {
        other.expect_gone(Op::Release(lease(1)), BASE, "held by another key").await;
        other.expect_admitted(1, BASE).await;
    }
    assert!(first.release(1, BASE).await.allowed, "{first}: it was held there");
    for other in &others {
        other.expect_remaining(0, BASE, "after the first key's was released").await;
    }
    Applicability::Ran
}

/// Every bit of a lease's id counts.
pub async fn similar_lease_ids_stay_distinct<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let caller = Caller::new(subject, "similar_lease_ids_stay_distinct", concurrency_quota(64));
    let ids: Vec<u64> = (0..64).map(|bit| 1 << bit).collect();
    for id in &ids {
        caller.expect_admitted(*id, BASE).await;
    }
    caller.expect_remaining(0, BASE, "64 ids of one bit each").await;
    for id in [0, 3, 1 << 32 | 1, u64::MAX] {
        caller.expect_gone(Op::Release(lease(id)), BASE, "another id").await;
    }
    for (left, id) in ids.iter().enumerate() {
        let released = caller.release(*id, BASE).await;
        assert_eq!((released.allowed, released.remaining), (true, left as u32 + 1), "{caller}: {id:016x}");
    }
    Applicability::Ran
}

/// Time that goes backwards stands still for leases, and spans count from the caller's time.
pub async fn backwards_clock_stands_still_for_leases<S: TestableStore + 'static>(
    subject: &Subject<S>,
) -> Applicability {
    let caller = Caller::new(subject, "backwards_clock_stands_still_for_leases", concurrency_quota(3));
    caller.expect_admitted(1, BASE).await;
    let second = caller.expect_admitted(2, BASE - 3 * SECOND).await;
    assert_eq!(second.reset_after, TTL + 3 * SECOND, "{caller}: admitted when it was last written: {second:?}");
    // A lease written then does not count as written earlier.
    let third = caller.expect_admitted(3, BASE - 4 * SECOND).await;
    assert_eq!(third.next_after, Some(TTL + 4 * SECOND), "{caller}: all at the same time: {third:?}");
    let denied = caller.admit(4, BASE - 5 * SECOND).await;
    assert_eq!(denied.retry_after, Some(TTL + 5 * SECOND), "{caller}: {denied:?}");
    caller.expect_remaining(0, BASE + TTL - 1, "all are held").await;
    caller.expect_remaining(3, BASE + TTL, "all have expired").await;
    // A release is a write, too.
    let caller = Caller::new(subject, "backwards_clock_stands_still_for_releases", concurrency_quota(3));
    caller.expect_admitted(1, BASE).await;
    caller.expect_admitted(2, BASE).await;
    assert!(caller.release(1, BASE + SECOND).await.allowed, "{caller}: it is held");
    let third = caller.expect_admitted(3, BASE).await;
    assert_eq!(third.reset_after, TTL + SECOND, "{caller}: admitted when the release was written: {third:?}");
    Applicability::Ran
}

/// A key whose leases have expired or were released is evicted. A key that was only checked was never stored.
pub async fn expired_leases_are_evicted<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let caller = Caller::new(subject, "expired_leases_are_evicted", concurrency_quota(2));
    let held = async |at| subject.store().sweep_at(Timestamp::from_micros(at)).await;
    let Some(before) = held(BASE).await else {
        return Applicability::NotApplicable("the store cannot tell how many keys it holds");
    };
    caller.check(1, BASE).await;
    caller.expect_gone(Op::Release(lease(1)), BASE, "never admitted").await;
    caller.expect_admitted(1, BASE).await;
    caller.release(1, BASE).await;
    assert_eq!(held(BASE).await, Some(before), "{caller}: held after all was released");
    caller.expect_admitted(1, BASE).await;
    caller.expect_admitted(2, BASE + SECOND).await;
    assert_eq!(held(BASE + TTL + SECOND - 1).await, Some(before + 1), "{caller}: held while one is in flight");
    caller.expect_remaining(1, BASE + TTL + SECOND - 1, "one is in flight").await;
    assert_eq!(held(BASE + TTL + SECOND).await, Some(before), "{caller}: held after both have expired");
    Applicability::Ran
}

/// Many concurrent callers together hold exactly the capacity, and never more as they come and go.
pub async fn concurrent_leases_never_exceed_the_capacity<S: TestableStore + 'static>(
    subject: &Subject<S>,
) -> Applicability {
    const CALLERS: usize = 60;
    let quota = Quota::concurrency(20, MAX_PERIOD).expect("a valid quota");
    let caller = Caller::new(subject, "concurrent_leases_never_exceed_the_capacity", quota);
    let in_flight = Arc::new(AtomicU64::new(0));
    let admitted: u64 = subject
        .run_concurrently(CALLERS, |index, store| {
            let (owned, in_flight) = (OwnedCaller::new(&caller), Arc::clone(&in_flight));
            async move {
                let mut admitted = 0;
                for round in 0..6 {
                    let id = lease((index * 100 + round) as u64);
                    if !owned.apply(&*store, Op::Admit(id)).await {
                        continue;
                    }
                    admitted += 1;
                    let now = in_flight.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now <= 20, "{now} in flight of 20");
                    std::thread::yield_now();
                    in_flight.fetch_sub(1, Ordering::SeqCst);
                    assert!(owned.apply(&*store, Op::Release(id)).await, "{id} was held and not released");
                }
                admitted
            }
        })
        .into_iter()
        .sum();
    assert!(admitted >= 20, "{caller}: only {admitted} were ever admitted");
    let look = caller.expect(subject.store().apply(&caller.request(Op::Check(cost(1)))).await, Op::Check(cost(1)));
    assert_eq!(look.remaining(), 20, "{caller}: all were released");

    let saturated = caller.with_key("saturated");
    let admitted = subject.run_concurrently(CALLERS, |index, store| {
        let owned = OwnedCaller::new(&saturated);
        async move { owned.apply(&*store, Op::Admit(lease(index as u64))).await }
    });
    assert_eq!(admitted.into_iter().filter(|admitted| *admitted).count(), 20, "{saturated}: wanted by {CALLERS}");
    Applicability::Ran
}

/// An operation that the algorithm does not have is denied without a retry time and changes nothing. In a joint request
/// it is unsupported.
pub async fn leases_and_units_do_not_mix<S: TestableStore + 'static>(subject: &Subject<S>) -> Applicability {
    let unit_ops = [Op::Limit(Cost::ONE), Op::Reserve(Cost::ONE), Op::Refund(Cost::ONE)];
    let lease_ops = [Op::Admit(lease(1)), Op::Renew(lease(1)), Op::Release(lease(1))];
    let callers = standard_quotas().into_iter().map(|quota| (quota, Op::Limit(Cost::ONE), lease_ops));
    for (quota, own, others) in callers.chain([(concurrency_quota(10), Op::Admit(lease(1)), unit_ops)]) {
        let caller = Caller::new(subject, "leases_and_units_do_not_mix", quota);
        for remaining in [10, 9] {
            for op in others {
                let decision = caller.apply(op, BASE).await;
                let fields = (decision.allowed, decision.remaining, decision.retry_after, decision.reason);
                let expected = (false, remaining, None, Some(Reason::CostExceedsCapacity));
                assert_eq!(fields, expected, "{caller}: {op:?}: {decision:?}");
            }
            caller.expect_remaining(u64::from(remaining), BASE, "after what it does not have").await;
            caller.apply(own, BASE).await;
        }
    }
    let (rate, held) = (
        Caller::new(subject, "leases_in_a_batch", standard_quotas()[0]),
        Caller::new(subject, "in_a_batch", concurrency_quota(2)),
    );
    let limit = Op::Limit(Cost::ONE);
    for requests in [[rate.request(limit), held.request(limit)], [held.request(lease_ops[0]), rate.request(limit)]] {
        let result = subject.store().apply_all_at(&requests, Timestamp::from_micros(BASE)).await;
        let kind = result.map_err(|error| error.kind());
        assert_eq!(kind, Err(StoreErrorKind::Unsupported), "{held}: in a batch");
    }
    rate.expect_remaining(10, BASE, "after a refused batch").await;
    Applicability::Ran
}
