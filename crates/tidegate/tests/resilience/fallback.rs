//! The failure policy of each limit.

use tidegate::resilience::FallbackStore;
use tidegate::store::Op;
use tidegate::{Cost, OnStoreError, Reason, Store, StoreErrorKind};
use tidegate_testkit::{Faults, block_on};

use crate::support::{FAILURES, Faulty, TestRequest, apply_in_every_way, clock, error, faulty, kind};

fn falling_back() -> (FallbackStore<Faulty>, Faults) {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    (FallbackStore::new(store).clock(clock), faults)
}

#[test]
fn open_admits_with_the_reason_store() {
    let (store, faults) = falling_back();
    for kind in FAILURES {
        faults.fail(error(kind));
        let results = apply_in_every_way(&store, &TestRequest::new(1));
        assert_eq!(results.len(), 5);
        for result in results {
            let decision = result.unwrap();
            assert!(decision.allowed());
            assert_eq!((decision.reason(), decision.limit(), decision.remaining()), (Some(Reason::Store), 1, 0));
            assert_eq!((decision.retry_after(), decision.next_after()), (None, None));
        }
    }
    assert_eq!(store.local(), None);
}

#[test]
fn open_denies_an_impossible_cost() {
    let (store, faults) = falling_back();
    faults.fail(error(StoreErrorKind::Unavailable));
    let target = TestRequest::new(5);
    let too_much = block_on(store.apply(&target.op(Op::Limit(Cost::new(6).unwrap())))).unwrap();
    assert_eq!((too_much.allowed(), too_much.reason()), (false, Some(Reason::CostExceedsCapacity)));
    let all_of_it = block_on(store.apply(&target.op(Op::Limit(Cost::new(5).unwrap())))).unwrap();
    assert_eq!((all_of_it.allowed(), all_of_it.reason()), (true, Some(Reason::Store)));
}

#[test]
fn closed_returns_the_error() {
    let (store, faults) = falling_back();
    for failure in FAILURES {
        faults.fail(error(failure));
        let results = apply_in_every_way(&store, &TestRequest::new(5).policy(OnStoreError::Closed));
        assert_eq!(results.into_iter().map(kind).collect::<Vec<_>>(), [Some(failure); 5]);
    }
    assert_eq!(store.local(), None);
}

#[test]
fn local_decides_in_process_by_the_quota() {
    for failure in FAILURES {
        let (store, faults) = falling_back();
        faults.fail(error(failure));
        // One by try_apply, one by apply, two by apply_all, two by apply_each: the last is the sixth of five.
        let results = apply_in_every_way(&store, &TestRequest::new(5).policy(OnStoreError::Local));
        let answers: Vec<_> = results.into_iter().map(|result| result.unwrap()).collect();
        let allowed: Vec<_> = answers.iter().map(|decision| decision.allowed()).collect();
        assert_eq!(allowed, [true, true, true, true, false]);
        assert_eq!((answers[3].reason(), answers[3].remaining()), (None, 0));
        assert_eq!(answers[4].reason(), Some(Reason::Rate));
    }
}

#[test]
fn unsupported_is_returned_under_every_policy() {
    for policy in OnStoreError::ALL {
        let (store, faults) = falling_back();
        let target = TestRequest::new(5).policy(policy);
        faults.fail(error(StoreErrorKind::Unsupported));
        let results = apply_in_every_way(&store, &target);
        assert_eq!(results.into_iter().map(kind).collect::<Vec<_>>(), [Some(StoreErrorKind::Unsupported); 5]);
        assert_eq!(store.local(), None);
        // Even when the store is too broken to say so.
        faults.fail(error(StoreErrorKind::Unavailable));
        for op in [Op::Check(Cost::ONE), Op::Reserve(Cost::ONE), Op::Refund(Cost::ONE), Op::Reset] {
            let misuse = block_on(store.apply_all(&[target.limit(), target.op(op)]));
            assert_eq!(kind(misuse), Some(StoreErrorKind::Unsupported));
        }
    }
}

#[test]
fn strictest_policy_of_several_limits_wins() {
    use OnStoreError::{Closed, Local, Open};
    let (store, faults) = falling_back();
    faults.fail(error(StoreErrorKind::Timeout));
    let target = |policy| TestRequest::new(5).policy(policy);
    let all = |policies: &[OnStoreError]| {
        let parts: Vec<_> = policies.iter().map(|policy| target(*policy)).collect();
        block_on(store.apply_all(&parts.iter().map(TestRequest::limit).collect::<Vec<_>>()))
    };
    for closed in [&[Closed, Local, Open][..], &[Open, Closed], &[Local, Local, Closed]] {
        assert_eq!(kind(all(closed)), Some(StoreErrorKind::Timeout));
    }
    assert_eq!(store.local(), None);
    let open = all(&[Open, Open, Open, Open, Open, Open]).unwrap();
    assert!(open.decisions().iter().all(|decision| decision.reason() == Some(Reason::Store)));
    // All of them are decided locally, those of an open limit too, and all or nothing.
    let denied = all(&[Open, Local, Open, Open, Open, Open]).unwrap();
    assert_eq!((denied.allowed(), denied.decisions().len()), (false, 6));
    let taken = all(&[Open, Open, Open, Open, Local]).unwrap();
    assert!(taken.allowed() && taken.decisions().iter().all(|decision| decision.reason().is_none()));
    assert!(!all(&[Open, Local]).unwrap().allowed());
    assert!(all(&[]).unwrap().allowed());
}

#[test]
fn independent_requests_use_their_own_policies() {
    let (store, faults) = falling_back();
    faults.fail(error(StoreErrorKind::Unavailable));
    let target = [OnStoreError::Open, OnStoreError::Closed, OnStoreError::Local]
        .map(|policy| TestRequest::new(5).policy(policy));
    let results = block_on(store.apply_each(&target.each_ref().map(TestRequest::limit)));
    let [open, closed, local] = results.try_into().unwrap();
    assert_eq!(open.unwrap().reason(), Some(Reason::Store));
    assert_eq!(kind(closed), Some(StoreErrorKind::Unavailable));
    assert_eq!(local.unwrap().remaining(), 4);
}

#[test]
fn store_that_must_wait_has_not_failed() {
    let (store, faults) = falling_back();
    faults.hang();
    for policy in OnStoreError::ALL {
        assert!(store.try_apply(&TestRequest::new(5).policy(policy).limit()).is_none());
    }
}

#[test]
fn answers_of_the_store_are_passed_on() {
    let (store, faults) = falling_back();
    let target = TestRequest::new(3).policy(OnStoreError::Local);
    assert_eq!(target.admitted(&store), 3);
    assert_eq!((target.left(store.inner()), store.local()), (0, None));
    block_on(store.close());
    assert_eq!(faults.calls().close, 1);
}
