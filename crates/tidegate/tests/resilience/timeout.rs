//! No request waits longer than a span.

use std::pin::pin;
use std::task::Poll;
use std::thread;

use tidegate::resilience::Timeout;
use tidegate::{ManualClock, Store, StoreErrorKind, Testing, Timestamp, millis};
use tidegate_testkit::{Faults, block_on};

use crate::support::{Asked, Faulty, clock, error, faulty, kind, poll};

fn slow() -> (Timeout<Faulty>, Faults, ManualClock) {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    (Timeout::new(store, millis(50), clock.clone()), faults, clock)
}

#[test]
fn a_call_that_hangs_ends_when_its_time_is_up_and_not_before() {
    let (store, faults, clock) = slow();
    faults.hang();
    let asked = Asked::new(5);
    let request = asked.limit();
    let mut call = pin!(store.apply(&request));
    assert!(poll(call.as_mut()).is_pending());
    clock.advance(millis(49));
    assert!(poll(call.as_mut()).is_pending());
    clock.advance(millis(1));
    let Poll::Ready(Err(error)) = poll(call.as_mut()) else { panic!("still waiting") };
    assert_eq!(error.to_string(), "store timed out: no answer within 50ms");
    assert!(error.is_retryable());
}

#[test]
fn the_call_inside_is_dropped_and_not_applied_later() {
    let (store, faults, clock) = slow();
    faults.hang();
    let asked = Asked::new(5);
    {
        let request = asked.limit();
        let mut call = pin!(store.apply(&request));
        assert!(poll(call.as_mut()).is_pending());
        assert_eq!((faults.held_calls(), clock.sleepers()), (1, 1));
        clock.advance(millis(50));
        assert!(poll(call.as_mut()).is_ready());
        // Before the answer is even dropped.
        assert_eq!((faults.held_calls(), clock.sleepers()), (0, 0));
    }
    faults.release();
    faults.pass();
    assert_eq!(asked.left(&store), 5);
}

#[test]
fn a_waiting_caller_is_woken_by_the_timer() {
    let (store, faults, clock) = slow();
    faults.hang();
    let caller = thread::spawn(move || kind(block_on(store.apply(&Asked::new(5).limit()))));
    while clock.sleepers() == 0 {
        thread::yield_now();
    }
    clock.advance(millis(50));
    assert_eq!(caller.join().unwrap(), Some(StoreErrorKind::Timeout));
}

#[test]
fn an_answer_in_time_is_the_answer() {
    let (store, faults, clock) = slow();
    let asked = Asked::new(5);
    for slowly in [Faults::hang, Faults::answer_late] {
        slowly(&faults);
        let request = asked.limit();
        let mut call = pin!(store.apply(&request));
        assert!(poll(call.as_mut()).is_pending());
        clock.advance(millis(49));
        faults.release();
        assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(decision)) if decision.allowed()));
    }
    faults.pass();
    assert_eq!((asked.left(&store), clock.sleepers()), (3, 0));
}

#[test]
fn several_requests_share_one_timeout() {
    let (store, faults, clock) = slow();
    faults.hang();
    let asked = Asked::new(5);
    let requests = [asked.limit(), asked.limit(), asked.limit()];
    let (mut all, mut each) = (pin!(store.apply_all(&requests)), pin!(store.apply_each(&requests)));
    assert!(poll(all.as_mut()).is_pending() && poll(each.as_mut()).is_pending());
    clock.advance(millis(50));
    assert!(matches!(poll(all.as_mut()), Poll::Ready(Err(error)) if error.kind() == StoreErrorKind::Timeout));
    let Poll::Ready(results) = poll(each.as_mut()) else { panic!("still waiting") };
    let kinds: Vec<_> = results.into_iter().map(kind).collect();
    assert_eq!(kinds, [Some(StoreErrorKind::Timeout); 3]);
}

#[test]
fn the_testing_entry_has_the_timeout_too() {
    let (store, faults, clock) = slow();
    faults.hang();
    let asked = Asked::new(5);
    let (requests, at) = ([asked.limit()], Timestamp::from_millis(1));
    let (mut one, mut all) = (pin!(store.apply_at(&requests[0], at)), pin!(store.apply_all_at(&requests, at)));
    assert!(poll(one.as_mut()).is_pending() && poll(all.as_mut()).is_pending());
    clock.advance(millis(50));
    assert!(matches!(poll(one.as_mut()), Poll::Ready(Err(_))));
    assert!(matches!(poll(all.as_mut()), Poll::Ready(Err(_))));
}

#[test]
fn what_does_not_wait_is_passed_on() {
    let (store, faults, clock) = slow();
    let asked = Asked::new(5);
    assert!(store.apply_now(&asked.limit()).unwrap().unwrap().allowed());
    faults.hang();
    assert!(store.apply_now(&asked.limit()).is_none());
    faults.fail(error(StoreErrorKind::Corrupt));
    assert_eq!(kind(store.apply_now(&asked.limit()).unwrap()), Some(StoreErrorKind::Corrupt));
    assert_eq!(kind(block_on(store.apply(&asked.limit()))), Some(StoreErrorKind::Corrupt));
    block_on(store.close());
    assert_eq!((faults.calls().close, clock.sleepers()), (1, 0));
}
