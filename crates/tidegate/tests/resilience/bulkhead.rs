//! The bulkhead: calls queue before an overloaded store, and limits share it fairly.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;

use tidegate::resilience::{BreakerState, BulkheadStore, Resilience, Resilient, with_caller};
use tidegate::store::{Op, Scope};
use tidegate::{
    Cost, Decision, Lease, ManualClock, OnStoreError, Quota, Reason, Store, StoreError, StoreErrorKind, millis,
    minutes, seconds,
};
use tidegate_testkit::{Faults, block_on};

use crate::support::{Faulty, TestRequest, clock, error, faulty, kind, poll};

fn narrow(max_in_flight: u32) -> (BulkheadStore<Faulty>, Faults, ManualClock) {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    faults.hang();
    (BulkheadStore::new(store, "faulty", millis(50), clock.clone()).max_in_flight(max_in_flight), faults, clock)
}

fn of_limit(limit: &str) -> TestRequest {
    TestRequest { scope: Scope::new("", limit), ..TestRequest::new(1_000) }
}

type Call<'a> = Pin<Box<dyn Future<Output = Result<Decision, StoreError>> + 'a>>;

fn start<'a>(store: &'a impl Store, request: &'a TestRequest) -> Call<'a> {
    let mut call: Call<'a> = Box::pin(async move { store.apply(&request.limit()).await });
    assert!(poll(call.as_mut()).is_pending());
    call
}

#[test]
fn calls_beyond_the_bound_wait_for_their_turn() {
    let (store, faults, _clock) = narrow(2);
    let login = of_limit("login");
    let mut calls: Vec<_> = (0..5).map(|_| start(&store, &login)).collect();
    assert_eq!((faults.held_calls(), store.in_flight(), store.waiting()), (2, 2, 3));
    faults.pass();
    faults.release();
    assert!(calls.iter_mut().all(|call| matches!(poll(call.as_mut()), Poll::Ready(Ok(_)))));
    drop(calls);
    assert_eq!((store.in_flight(), store.waiting()), (0, 0));
}

#[test]
fn bound_follows_the_latency_of_the_store() {
    let (store, faults, clock) = narrow(256);
    let login = of_limit("login");
    let serve = |latency| {
        faults.hang();
        let mut calls: Vec<_> = (0..store.limit()).map(|_| start(&store, &login)).collect();
        clock.advance(latency);
        faults.pass();
        faults.release();
        assert!(calls.iter_mut().all(|call| poll(call.as_mut()).is_ready()));
    };
    let first = store.limit();
    (0..100).for_each(|_| serve(millis(40)));
    let slow = store.limit();
    assert!(slow < first / 4, "{slow}");
    (0..1_000).for_each(|_| serve(millis(1)));
    assert!(store.limit() > first, "{}", store.limit());
}

#[test]
fn long_batch_waits_for_its_turn_again_and_again() {
    let (store, faults, _clock) = narrow(1);
    let (flooded, honest) = (of_limit("flooded"), of_limit("honest"));
    let requests = [flooded.limit(); 64];
    let mut batch = pin!(store.apply_each(&requests));
    assert!(poll(batch.as_mut()).is_pending());
    let mut call = start(&store, &honest);
    faults.release();
    assert!(poll(batch.as_mut()).is_pending());
    assert_eq!(faults.held_calls(), 0, "the honest call has the place");
    assert!(poll(call.as_mut()).is_pending());
    faults.pass();
    faults.release();
    assert!(poll(call.as_mut()).is_ready());
    let Poll::Ready(results) = poll(batch.as_mut()) else { panic!("still waiting") };
    assert!(results.len() == 64 && results.iter().all(Result::is_ok));
}

#[test]
fn limit_below_its_part_is_served_before_a_flood() {
    let (store, faults, _clock) = narrow(4);
    let (flooded, honest) = (of_limit("flooded"), of_limit("honest"));
    let mut flood: Vec<_> = (0..100).map(|_| start(&store, &flooded)).collect();
    let mut call = start(&store, &honest);
    faults.release();
    // One call of the flood ends, and its place goes to the other limit.
    assert!(poll(flood[0].as_mut()).is_ready());
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(faults.held_calls(), 1, "the honest call is in the store");
    faults.pass();
    faults.release();
    assert!(poll(call.as_mut()).is_ready());
}

#[test]
fn callers_of_a_limit_take_turns() {
    let (store, faults, _clock) = narrow(1);
    let login = of_limit("login");
    let call = |caller| -> Call<'_> {
        let mut call: Call<'_> = Box::pin(with_caller(caller, async { store.apply(&login.limit()).await }));
        assert!(poll(call.as_mut()).is_pending());
        call
    };
    // One caller fills the queue.
    let mut flood: Vec<_> = (0..1 + 1_024).map(|_| call(1)).collect();
    let refused = block_on(with_caller(1, async { store.apply(&login.limit()).await }));
    assert_eq!(kind(refused), Some(StoreErrorKind::Overloaded));
    // Two others always have a call: one of them that waits, and each another one when that is served.
    let mut others = [call(2), call(3)];
    let (mut of_flood, mut of_others) = (0, [0; 2]);
    for _ in 0..30 {
        faults.release();
        while poll(flood[of_flood].as_mut()).is_ready() {
            of_flood += 1;
        }
        for number in 0..2 {
            if poll(others[number].as_mut()).is_ready() {
                of_others[number] += 1;
                others[number] = call(2 + number as u64);
            }
        }
        // The next call has its slot now, and goes into the store.
        _ = poll(flood[of_flood].as_mut());
        others.iter_mut().for_each(|call| _ = poll(call.as_mut()));
    }
    assert!((9..=11).contains(&of_flood), "{of_flood} and {of_others:?}");
    assert!(of_others.iter().all(|served| (9..=11).contains(served)), "{of_flood} and {of_others:?}");
}

#[test]
fn call_without_a_turn_is_overloaded_and_does_not_reach_the_store() {
    let (store, faults, clock) = narrow(1);
    let login = of_limit("login");
    let _in_store = start(&store, &login);
    let mut call = start(&store, &login);
    clock.advance(millis(49));
    assert!(poll(call.as_mut()).is_pending());
    clock.advance(millis(1));
    let Poll::Ready(result) = poll(call.as_mut()) else { panic!("still waiting") };
    assert!(result.as_ref().is_err_and(StoreError::is_retryable));
    assert_eq!((kind(result), faults.calls().apply), (Some(StoreErrorKind::Overloaded), 1));
}

#[test]
fn full_queue_refuses_at_once_and_only_its_own_limit() {
    let (store, _faults, _clock) = narrow(1);
    let (flooded, honest) = (of_limit("flooded"), of_limit("honest"));
    let _flood: Vec<_> = (0..1 + 1_024).map(|_| start(&store, &flooded)).collect();
    assert_eq!(kind(block_on(store.apply(&flooded.limit()))), Some(StoreErrorKind::Overloaded));
    let results = block_on(store.apply_each(&[flooded.limit(); 3]));
    assert!(results.into_iter().all(|result| kind(result) == Some(StoreErrorKind::Overloaded)));
    let _waits = start(&store, &honest);
    assert_eq!(store.waiting(), 1_025);
}

#[test]
fn dropped_calls_leave_the_queue_and_the_store() {
    let (store, faults, _clock) = narrow(2);
    let login = of_limit("login");
    let calls: Vec<_> = (0..10).map(|_| start(&store, &login)).collect();
    drop(calls);
    assert_eq!((faults.held_calls(), store.in_flight(), store.waiting()), (0, 0, 0));
}

#[test]
fn calls_that_give_back_pass_the_queue() {
    let (store, faults, _clock) = narrow(1);
    let work = TestRequest { quota: Quota::concurrency(3, minutes(1)).unwrap(), ..TestRequest::new(1) };
    let login = of_limit("login");
    let _in_store = start(&store, &login);
    let lease = Lease::from_bits(7);
    for op in [Op::Renew(lease), Op::Release(lease), Op::Refund(Cost::ONE)] {
        let request = work.op(op);
        let held = faults.held_calls();
        let mut call = pin!(store.apply(&request));
        assert!(poll(call.as_mut()).is_pending());
        assert_eq!(faults.held_calls(), held + 1, "{op:?}");
    }
    // A client can send any number of them.
    let request = login.op(Op::Refund(Cost::ONE));
    let mut flood: Vec<Call<'_>> = (0..1_000).map(|_| -> Call<'_> { Box::pin(store.apply(&request)) }).collect();
    for call in &mut flood {
        assert!(poll(call.as_mut()).is_pending());
    }
    assert_eq!((faults.held_calls(), store.waiting()), (1 + 256, 1_000 - 256));
}

fn whole(max_in_flight: u32) -> (Resilient<Faulty>, Faults, ManualClock) {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    (Resilience::new(clock.clone()).max_in_flight(max_in_flight).build(store), faults, clock)
}

/// Returns the decision of a call that finds no turn in time.
fn overloaded(policy: OnStoreError) -> Result<Decision, StoreError> {
    let (store, faults, clock) = whole(1);
    faults.hang();
    let login = of_limit("login").policy(policy);
    let in_store = start(&store, &login);
    let mut call = start(&store, &login);
    clock.advance(millis(50));
    let Poll::Ready(result) = poll(call.as_mut()) else { panic!("still waiting") };
    drop(in_store);
    assert_eq!(store.breaker(), BreakerState::Closed);
    result
}

#[test]
fn overload_denies_and_says_when_to_retry() {
    for policy in [OnStoreError::Open, OnStoreError::Local] {
        let decision = overloaded(policy).unwrap();
        assert_eq!((decision.allowed(), decision.reason()), (false, Some(Reason::Store)));
        assert_eq!(decision.retry_after(), Some(seconds(1)));
    }
    assert_eq!(kind(overloaded(OnStoreError::Closed)), Some(StoreErrorKind::Overloaded));
}

#[test]
fn flood_does_not_open_the_breaker() {
    let (store, faults, clock) = whole(1);
    faults.hang();
    let login = of_limit("login");
    let _in_store = start(&store, &login);
    let mut flood: Vec<_> = (0..100).map(|_| start(&store, &login)).collect();
    clock.advance(millis(50));
    for call in &mut flood {
        let Poll::Ready(decision) = poll(call.as_mut()) else { panic!("still waiting") };
        assert!(!decision.unwrap().allowed());
    }
    assert_eq!((store.breaker(), faults.calls().apply), (BreakerState::Closed, 1));
}

#[test]
fn denied_key_stays_denied_while_the_store_fails() {
    for failure in [StoreErrorKind::Unavailable, StoreErrorKind::Timeout, StoreErrorKind::Contended] {
        let (store, faults, clock) = whole(8);
        let login = TestRequest::new(2);
        assert_eq!([0; 3].map(|_| login.take(&store).allowed()), [true, true, false]);
        clock.advance(seconds(20));
        faults.fail(error(failure));
        let denied = login.take(&store);
        assert_eq!((denied.allowed(), denied.reason()), (false, Some(Reason::Rate)));
        assert_eq!(denied.retry_after(), Some(seconds(40)));
        assert!(login.key("other").take(&store).allowed(), "nothing is known of it");
        clock.advance(seconds(40));
        assert!(login.take(&store).allowed(), "its quota is back");
    }
}

#[test]
fn joint_call_is_denied_by_a_key_that_was_denied_before() {
    let (store, faults, _clock) = whole(8);
    let (login, send) = (TestRequest::new(1), of_limit("send"));
    let joint = || block_on(store.apply_all(&[send.limit(), login.limit()])).unwrap();
    assert_eq!([joint().allowed(), joint().allowed()], [true, false]);
    faults.fail(error(StoreErrorKind::Unavailable));
    let denied = joint();
    assert_eq!(denied.decisions().iter().map(Decision::allowed).collect::<Vec<_>>(), [true, false]);
    assert!(send.take(&store).allowed());
    assert!(!login.take(&store).allowed());
}

#[test]
fn refunded_key_is_admitted_while_the_store_fails() {
    let (store, faults, _clock) = whole(8);
    let login = TestRequest::new(1);
    assert_eq!([login.take(&store).allowed(), login.take(&store).allowed()], [true, false]);
    assert!(block_on(store.apply(&login.op(Op::Reset))).is_ok());
    faults.fail(error(StoreErrorKind::Unavailable));
    assert!(login.take(&store).allowed());
}

#[test]
fn refund_elsewhere_ends_a_cached_denial_once_the_store_admits() {
    let (store, faults, _clock) = whole(8);
    let login = TestRequest::new(2);
    assert_eq!([0; 3].map(|_| login.take(&store).allowed()), [true, true, false]);
    // Behind the cache, as another process would.
    let inner = store.inner().inner().inner().inner().inner().inner();
    assert!(block_on(inner.apply(&login.op(Op::Reset))).is_ok());
    assert!(login.take(&store).allowed(), "the cache answers only for a store that fails");
    faults.fail(error(StoreErrorKind::Unavailable));
    assert!(login.take(&store).allowed(), "one unit is left");
}
