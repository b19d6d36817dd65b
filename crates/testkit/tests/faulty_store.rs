//! Tests of the faulty store: it fails on command, and otherwise passes every call to its inner store.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use tidegate_core::{
    Cost, Key, OnStoreError, Op, Quota, Request, Scope, Store, StoreError, StoreErrorKind, TestableStore, Timestamp,
    days,
};
use tidegate_testkit::{FaultyStore, MapStore, Subject, block_on, conformance_tests};

conformance_tests!(passing, Subject::new(FaultyStore::new(MapStore::new())));

struct Login {
    scope: Scope,
    key: Key<'static>,
    quota: Quota,
}

impl Login {
    fn new() -> Self {
        let quota = Quota::fixed_window(5, days(300)).unwrap();
        Login { scope: Scope::new("", "login"), key: Key::from("u1"), quota }
    }

    fn request(&self, op: Op) -> Request<'_> {
        Request { scope: &self.scope, key: &self.key, quota: &self.quota, op, on_store_error: OnStoreError::default() }
    }

    fn limit(&self) -> Request<'_> {
        self.request(Op::Limit(Cost::ONE))
    }

    /// Returns the units left in the inner store, under any fault.
    fn left(&self, store: &FaultyStore<MapStore>) -> u64 {
        block_on(store.inner().apply(&self.request(Op::Check(Cost::ONE)))).unwrap().remaining()
    }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn failing_store_returns_the_error_without_an_inner_call() {
    let (store, login) = (FaultyStore::new(MapStore::new()), Login::new());
    let faults = store.faults();
    faults.fail(StoreError::new(StoreErrorKind::Corrupt, "not ours"));
    let requests = [login.limit(), login.limit()];
    let at = Timestamp::from_millis(1);
    let kind = |error: StoreError| error.kind();
    let corrupt = Some(StoreErrorKind::Corrupt);
    assert_eq!(store.try_apply(&requests[0]).unwrap().map_err(kind).err(), corrupt);
    assert_eq!(block_on(store.apply(&requests[0])).map_err(kind).err(), corrupt);
    assert_eq!(block_on(store.apply_at(&requests[0], at)).map_err(kind).err(), corrupt);
    assert_eq!(block_on(store.apply_all(&requests)).map_err(kind).err(), corrupt);
    assert_eq!(block_on(store.apply_all_at(&requests, at)).map_err(kind).err(), corrupt);
    let each = block_on(store.apply_each(&requests));
    assert_eq!(each.into_iter().map(|result| result.map_err(kind).err()).collect::<Vec<_>>(), [corrupt; 2]);
    block_on(store.close());
    let calls = faults.calls();
    assert_eq!((calls.try_apply, calls.apply, calls.apply_all, calls.apply_each, calls.close), (1, 2, 2, 1, 1));
    assert_eq!(calls.decisions(), 6);
    assert_eq!(login.left(&store), 5);
    faults.pass();
    assert!(block_on(store.apply(&requests[0])).unwrap().allowed());
}

#[test]
fn hanging_call_is_applied_after_release() {
    let (store, login) = (FaultyStore::new(MapStore::new()), Login::new());
    let faults = store.faults();
    faults.hang();
    let request = login.limit();
    assert!(store.try_apply(&request).is_none());
    let mut call = pin!(store.apply(&request));
    for _ in 0..3 {
        assert!(poll(call.as_mut()).is_pending());
        assert_eq!((faults.held_calls(), login.left(&store)), (1, 5));
    }
    // Another command does not release the held calls.
    faults.pass();
    assert!(poll(call.as_mut()).is_pending());
    faults.release();
    assert_eq!(faults.held_calls(), 0);
    assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(decision)) if decision.remaining() == 4));
}

#[test]
fn dropped_hanging_call_is_never_applied() {
    let (store, login) = (FaultyStore::new(MapStore::new()), Login::new());
    let faults = store.faults();
    faults.hang();
    {
        let request = login.limit();
        let mut call = pin!(store.apply(&request));
        assert!(poll(call.as_mut()).is_pending());
    }
    assert_eq!((faults.held_calls(), login.left(&store)), (0, 5));
}

#[test]
fn delayed_response_is_applied_before_release() {
    let (store, login) = (FaultyStore::new(MapStore::new()), Login::new());
    let faults = store.faults();
    faults.delay_responses();
    let requests = [login.limit(), login.limit()];
    assert!(store.try_apply(&requests[0]).is_none());
    assert_eq!(login.left(&store), 5);
    let mut call = pin!(store.apply_all(&requests));
    assert!(poll(call.as_mut()).is_pending());
    assert_eq!(login.left(&store), 3);
    faults.release();
    assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(all)) if all.allowed()));
    assert_eq!(login.left(&store), 3);
}

#[test]
fn release_wakes_callers_on_other_threads() {
    let store = Arc::new(FaultyStore::new(MapStore::new()));
    let faults = store.faults();
    faults.hang();
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            thread::spawn(move || block_on(store.apply(&Login::new().limit())).unwrap().allowed())
        })
        .collect();
    while faults.held_calls() < 4 {
        thread::yield_now();
    }
    faults.release();
    assert!(callers.into_iter().all(|caller| caller.join().unwrap()));
    assert_eq!(Login::new().left(&store), 1);
}
