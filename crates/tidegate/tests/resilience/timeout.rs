//! The timeout of requests to a store.

use std::pin::pin;
use std::task::Poll;
use std::thread;

use tidegate::resilience::TimeoutStore;
use tidegate::store::{Capabilities, Request, TestableStore};
use tidegate::{
    Decision, JointDecision, ManualClock, MemoryStore, Sleeper, Store, StoreError, StoreErrorKind, Timestamp, millis,
};
use tidegate_testkit::{Faults, block_on};

use crate::support::{Faulty, TestRequest, clock, error, faulty, kind, poll};

fn slow() -> (TimeoutStore<Faulty>, Faults, ManualClock) {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    (TimeoutStore::new(store, millis(50), clock.clone()), faults, clock)
}

#[test]
fn hanging_call_ends_exactly_at_its_timeout() {
    let (store, faults, clock) = slow();
    faults.hang();
    let target = TestRequest::new(5);
    let request = target.limit();
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
fn timed_out_call_is_dropped_and_not_applied_later() {
    let (store, faults, clock) = slow();
    faults.hang();
    let target = TestRequest::new(5);
    {
        let request = target.limit();
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
    assert_eq!(target.left(&store), 5);
}

#[test]
fn timer_wakes_the_waiting_caller() {
    let (store, faults, clock) = slow();
    faults.hang();
    let caller = thread::spawn(move || kind(block_on(store.apply(&TestRequest::new(5).limit()))));
    while clock.sleepers() == 0 {
        thread::yield_now();
    }
    clock.advance(millis(50));
    assert_eq!(caller.join().unwrap(), Some(StoreErrorKind::Timeout));
}

#[test]
fn answer_in_time_is_passed_on() {
    let (store, faults, clock) = slow();
    let target = TestRequest::new(5);
    for slowly in [Faults::hang, Faults::delay_responses] {
        slowly(&faults);
        let request = target.limit();
        let mut call = pin!(store.apply(&request));
        assert!(poll(call.as_mut()).is_pending());
        clock.advance(millis(49));
        faults.release();
        assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(decision)) if decision.allowed()));
    }
    faults.pass();
    assert_eq!((target.left(&store), clock.sleepers()), (3, 0));
}

#[test]
fn several_requests_share_one_timeout() {
    let (store, faults, clock) = slow();
    faults.hang();
    let target = TestRequest::new(5);
    let requests = [target.limit(), target.limit(), target.limit()];
    let (mut all, mut each) = (pin!(store.apply_all(&requests)), pin!(store.apply_each(&requests)));
    assert!(poll(all.as_mut()).is_pending() && poll(each.as_mut()).is_pending());
    clock.advance(millis(50));
    assert!(matches!(poll(all.as_mut()), Poll::Ready(Err(error)) if error.kind() == StoreErrorKind::Timeout));
    let Poll::Ready(results) = poll(each.as_mut()) else { panic!("still waiting") };
    let kinds: Vec<_> = results.into_iter().map(kind).collect();
    assert_eq!(kinds, [Some(StoreErrorKind::Timeout); 3]);
}

/// A store of which each request takes a millisecond.
struct MillisecondStore {
    clock: ManualClock,
    store: MemoryStore,
}

impl Store for MillisecondStore {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn try_apply(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.clock.sleep(millis(1)).await;
        self.store.apply(request).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.store.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let mut answers = Vec::new();
        for request in requests {
            answers.push(self.apply(request).await);
        }
        answers
    }

    async fn close(&self) {}
}

#[test]
fn long_batch_is_answered_in_parts_with_a_timeout_each() {
    let clock = clock();
    let store = MillisecondStore { clock: clock.clone(), store: MemoryStore::builder().clock(clock.clone()).build() };
    let store = TimeoutStore::new(store, millis(50), clock.clone());
    let target = TestRequest::new(1_000);
    let requests = vec![target.limit(); 500];
    let mut each = pin!(store.apply_each(&requests));
    let mut passed = 0;
    let results = loop {
        if let Poll::Ready(results) = poll(each.as_mut()) {
            break results;
        }
        clock.advance(millis(1));
        passed += 1;
    };
    assert_eq!(passed, 500);
    let left: Vec<_> = results.into_iter().map(|result| result.unwrap().remaining()).collect();
    assert_eq!(left, (500..1_000).rev().collect::<Vec<_>>());
}

#[test]
fn batch_to_a_hanging_store_waits_once() {
    let (store, faults, clock) = slow();
    faults.hang();
    let target = TestRequest::new(5);
    let requests = vec![target.limit(); 500];
    let mut each = pin!(store.apply_each(&requests));
    assert!(poll(each.as_mut()).is_pending());
    clock.advance(millis(50));
    let Poll::Ready(results) = poll(each.as_mut()) else { panic!("still waiting") };
    let kinds: Vec<_> = results.into_iter().map(kind).collect();
    assert_eq!(kinds, [Some(StoreErrorKind::Timeout); 500]);
}

#[test]
fn testing_entry_has_the_timeout() {
    let (store, faults, clock) = slow();
    faults.hang();
    let target = TestRequest::new(5);
    let (requests, at) = ([target.limit()], Timestamp::from_millis(1));
    let (mut one, mut all) = (pin!(store.apply_at(&requests[0], at)), pin!(store.apply_all_at(&requests, at)));
    assert!(poll(one.as_mut()).is_pending() && poll(all.as_mut()).is_pending());
    clock.advance(millis(50));
    assert!(matches!(poll(one.as_mut()), Poll::Ready(Err(_))));
    assert!(matches!(poll(all.as_mut()), Poll::Ready(Err(_))));
}

#[test]
fn immediate_calls_are_passed_on() {
    let (store, faults, clock) = slow();
    let target = TestRequest::new(5);
    assert!(store.try_apply(&target.limit()).unwrap().unwrap().allowed());
    faults.hang();
    assert!(store.try_apply(&target.limit()).is_none());
    faults.fail(error(StoreErrorKind::Corrupt));
    assert_eq!(kind(store.try_apply(&target.limit()).unwrap()), Some(StoreErrorKind::Corrupt));
    assert_eq!(kind(block_on(store.apply(&target.limit()))), Some(StoreErrorKind::Corrupt));
    block_on(store.close());
    assert_eq!((faults.calls().close, clock.sleepers()), (1, 0));
}
