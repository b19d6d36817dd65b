//! Permits that are leases: renewed while they are held, and released.

use std::future::{Future, pending, poll_fn};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::concurrency::{AcquireError, Completion, DistributedConcurrency, Permit};
use tidegate::resilience::{Resilience, TimeoutStore};
use tidegate::store::{Capabilities, Request};
use tidegate::{
    Clock, Decision, JointDecision, Key, Limit, Limiter, ManualClock, MemoryStore, OnStoreError, Quota, Store,
    StoreError, StoreErrorKind, Timestamp, TokioSleeper, millis, seconds,
};
use tidegate_testkit::FaultyStore;
use tokio::task::yield_now;

const TTL: Duration = seconds(30);

fn shared(capacity: u64) -> (DistributedConcurrency, Limiter, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let limiter = Limiter::builder()
        .store(memory(&clock))
        .limit("work", Quota::concurrency(capacity, TTL).unwrap())
        .limit("rate", Quota::token_bucket(1, TTL).unwrap())
        .build()
        .unwrap();
    (DistributedConcurrency::with_sleeper(&limiter, "work", clock.clone()), limiter, clock)
}

fn memory(clock: &ManualClock) -> MemoryStore {
    MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build()
}

fn free(limiter: &Limiter, key: &str) -> u64 {
    limiter.check("work", key).try_now().unwrap().remaining()
}

/// A limiter over a store whose answers take a moment, and that much time where there are several.
fn slow(capacity: u64, takes: Duration) -> (Limiter, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let limit = Quota::concurrency(capacity, TTL).unwrap();
    let store = Slow { store: memory(&clock), clock: clock.clone(), takes: Some(takes) };
    (Limiter::builder().limit("work", limit).bare_store(store).build().unwrap(), clock)
}

async fn free_in(limiter: &Limiter) -> u64 {
    limiter.check("work", "a").await.unwrap().remaining()
}

/// A store whose answers take a moment after it has decided.
struct Slow {
    store: MemoryStore,
    clock: ManualClock,
    /// The time to answer several requests. `None`: they are never answered.
    takes: Option<Duration>,
}

impl Store for Slow {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn try_apply(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let answer = self.store.apply(request).await;
        yield_now().await;
        answer
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.store.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let answers = self.store.apply_each(requests).await;
        let Some(takes) = self.takes else { return pending().await };
        self.clock.advance(takes);
        yield_now().await;
        answers
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

async fn until(condition: impl Fn() -> bool) {
    let holds = async {
        while !condition() {
            yield_now().await;
        }
    };
    tokio::time::timeout(seconds(30), holds).await.expect("the permits are not acquired in time");
}

/// Acquires that many permits of one key, and waits until they are renewed in the background.
async fn hold(shared: &DistributedConcurrency, count: usize, clock: &ManualClock) -> Vec<Permit> {
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(shared.try_acquire("a").await.unwrap());
    }
    shared.flush().await;
    until(|| clock.sleepers() == 1).await;
    held
}

#[tokio::test]
async fn permit_is_a_lease_that_is_released_with_it() {
    let (shared, limiter, _) = shared(2);
    let first = shared.try_acquire("a").await.unwrap();
    let second = shared.try_acquire("a").await.unwrap();
    assert_eq!((first.in_flight(), second.in_flight(), free(&limiter, "a")), (1, 2, 0));
    let Err(AcquireError::Rejected(refused)) = shared.try_acquire("a").await else { panic!("there is none") };
    assert_eq!((refused.limit(), refused.retry_after(), refused.is_shared()), (2, TTL, false));
    first.release(Completion::Success);
    drop(second);
    until(|| free(&limiter, "a") == 2).await;
}

#[tokio::test]
async fn lease_of_a_held_permit_is_renewed() {
    let (shared, limiter, clock) = shared(1);
    let permit = shared.try_acquire("a").await.unwrap();
    for _ in 0..30 {
        until(|| clock.sleepers() == 1).await; // the renewer waits for the next renewal
        clock.advance(seconds(10));
        yield_now().await;
        assert_eq!(free(&limiter, "a"), 0);
    }
    drop(permit);
    until(|| free(&limiter, "a") == 1).await;
}

#[tokio::test]
async fn dropped_call_holds_no_lease() {
    let (limiter, clock) = slow(1, Duration::ZERO);
    let shared = DistributedConcurrency::with_sleeper(&limiter, "work", clock);
    let mut call = Box::pin(shared.try_acquire("a"));
    poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending(), "the store has given a place, and its answer is on the way");
        Poll::Ready(())
    })
    .await;
    assert_eq!(free_in(&limiter).await, 0);
    drop(call);
    shared.flush().await;
    assert_eq!(free_in(&limiter).await, 1);
}

#[tokio::test]
async fn rejection_of_the_global_key_is_shared() {
    let (shared, ..) = shared(1);
    let _held = shared.try_acquire(Key::GLOBAL).await.unwrap();
    let Err(AcquireError::Rejected(refused)) = shared.try_acquire(Key::GLOBAL).await else { panic!("there is none") };
    assert!(refused.is_shared());
}

#[tokio::test]
async fn limit_of_another_kind_is_an_error() {
    let (_, limiter, clock) = shared(1);
    let Err(AcquireError::Failed(error)) =
        DistributedConcurrency::with_sleeper(&limiter, "rate", clock).try_acquire("a").await
    else {
        panic!("no")
    };
    assert!(error.is_misuse(), "{error}");
}

#[tokio::test]
async fn leases_expire_when_the_runtime_ends() {
    let (shared, limiter, clock) = shared(1);
    let other = shared.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let permit = runtime.block_on(other.try_acquire("a")).unwrap();
        drop(runtime);
        drop(permit); // no renewer is there to release it
    })
    .join()
    .unwrap();
    clock.advance(TTL - millis(1));
    assert_eq!(free(&limiter, "a"), 0);
    clock.advance(millis(1));
    assert_eq!(free(&limiter, "a"), 1);
    // The next caller starts a renewer.
    let permit = shared.try_acquire("a").await.unwrap();
    until(|| clock.sleepers() == 1).await;
    clock.advance(TTL / 2);
    until(|| clock.sleepers() == 1).await;
    clock.advance(TTL / 2);
    shared.flush().await;
    assert_eq!(free(&limiter, "a"), 0, "it was renewed");
    drop(permit);
    shared.flush().await;
    assert_eq!(free(&limiter, "a"), 1);
}

/// The lease is not renewed, and only its permit notices that.
#[tokio::test]
async fn permit_is_lost_when_the_runtime_of_its_renewer_ends() {
    let (shared, _, clock) = shared(1);
    let permit = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(shared.try_acquire("a")).unwrap()
    })
    .join()
    .unwrap();
    let mut lost = permit.lost();
    let mut poll_lost = || std::pin::Pin::new(&mut lost).poll(&mut Context::from_waker(Waker::noop()));
    clock.advance(TTL - millis(1));
    assert!(!permit.is_lost() && poll_lost().is_pending());
    clock.advance(millis(1));
    assert!(permit.is_lost() && poll_lost().is_ready());
}

/// A server with a runtime for each worker loses one of them, with the renewer of all leases.
#[tokio::test]
async fn leases_are_taken_over_from_a_runtime_that_ends() {
    let (shared, limiter, clock) = shared(3);
    let other = shared.clone();
    let (asked, has_asked) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let first = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { drop(other.try_acquire("a").await.unwrap()) });
        asked.send(()).unwrap();
        ends.recv().unwrap_err();
    });
    has_asked.recv().unwrap();
    let held = shared.try_acquire("a").await.unwrap();
    let dropped = shared.try_acquire("a").await.unwrap();
    drop(end);
    first.join().unwrap();
    drop(dropped);
    clock.advance(TTL / 2);
    assert_eq!(free(&limiter, "a"), 0, "releases wait for the next renewer");
    drop(shared.try_acquire("b").await.unwrap());
    shared.flush().await;
    assert_eq!(free(&limiter, "a"), 2);
    until(|| clock.sleepers() == 1).await;
    clock.advance(TTL / 2);
    shared.flush().await;
    assert_eq!(free(&limiter, "a"), 2, "the other is renewed");
    drop(held);
    shared.flush().await;
    assert_eq!(free(&limiter, "a"), 3);
}

#[tokio::test]
async fn settled_releases_leases_on_any_runtime() {
    let (limiter, clock) = slow(100, Duration::ZERO);
    let shared = DistributedConcurrency::with_sleeper(&limiter, "work", clock.clone());
    let other = shared.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let permits: Vec<_> = (0..100).map(|_| runtime.block_on(other.try_acquire("a")).unwrap()).collect();
        drop(permits);
        // `flush` has returned, so the earlier releases are done.
        runtime.block_on(async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        });
    })
    .join()
    .unwrap();
    shared.flush().await;
    assert_eq!(free_in(&limiter).await, 100);
}

/// Messages never end on a busy server, and renewals must not wait for an end.
#[tokio::test]
async fn endless_messages_do_not_delay_renewals() {
    let (limiter, clock) = slow(1_000, Duration::ZERO);
    let shared = DistributedConcurrency::with_sleeper(&limiter, "work", clock.clone());
    let long = shared.try_acquire("a").await.unwrap();
    for _ in 0..400 {
        // While the store handles one message the next comes in, and time passes.
        drop(shared.try_acquire("a").await.unwrap());
        clock.advance(TTL / 100);
    }
    shared.flush().await;
    assert_eq!(free_in(&limiter).await, 999, "the one that is held is held");
    drop(long);
    shared.flush().await;
    assert_eq!(free_in(&limiter).await, 1_000);
}

#[tokio::test]
async fn endless_renewals_do_not_delay_releases() {
    // More than are renewed together: once the last are, the first are due.
    let (limiter, clock) = slow(41, TTL / 4);
    let shared = DistributedConcurrency::with_sleeper(&limiter, "work", clock.clone());
    let mut held = hold(&shared, 40, &clock).await;
    clock.advance(TTL / 4);
    let due = clock.now();
    until(|| clock.now() > due).await;
    held.pop();
    let released = tokio::time::timeout(seconds(30), shared.flush()).await;
    assert!(released.is_ok(), "released permits release their leases");
    assert_eq!(free_in(&limiter).await, 2);
}

/// Permits are acquired in parallel, and releases must not be slower.
#[tokio::test]
async fn many_leases_are_released_in_parallel() {
    let (limiter, clock) = slow(250, Duration::ZERO);
    let shared = DistributedConcurrency::with_sleeper(&limiter, "work", clock.clone());
    let held = hold(&shared, 250, &clock).await;
    drop(held);
    // Requested before any release, and completed after all of them.
    let settled = shared.flush();
    let mut settled = std::pin::pin!(settled);
    let mut turns = 0;
    while poll_fn(|context| Poll::Ready(settled.as_mut().poll(context).is_pending())).await {
        turns += 1;
        yield_now().await;
    }
    assert_eq!(free_in(&limiter).await, 250);
    assert!(turns <= 6, "{turns} turns, where one batch after the other takes more");
}

/// More leases than fit in the timeout of a store that decides but never answers in time.
#[tokio::test(start_paused = true)]
async fn slow_store_loses_no_lease() {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let store = Slow { store: memory(&clock), clock: clock.clone(), takes: None };
    let store = TimeoutStore::new(store, millis(50), TokioSleeper);
    let limit = Quota::concurrency(100, TTL).unwrap();
    let limiter = Limiter::builder().limit("work", limit).store(store).build().unwrap();
    let shared = DistributedConcurrency::with_sleeper(&limiter, "work", clock.clone());
    let _held = hold(&shared, 100, &clock).await;
    for _ in 0..8 {
        clock.advance(TTL / 4);
        // Many timeouts pass at once in paused time.
        tokio::time::sleep(seconds(1)).await;
    }
    assert_eq!(free_in(&limiter).await, 0);
}

#[tokio::test]
async fn clock_set_back_loses_no_lease() {
    let (shared, limiter, clock) = shared(1);
    let _held = shared.try_acquire("a").await.unwrap();
    until(|| clock.sleepers() == 1).await;
    clock.set(Timestamp::from_millis(1_799_999_000_000));
    shared.flush().await;
    for _ in 0..20 {
        until(|| clock.sleepers() == 1).await;
        clock.advance(TTL / 4);
    }
    shared.flush().await;
    assert_eq!(free(&limiter, "a"), 0);
}

/// More leases than are renewed together, in a store with a clock of its own.
#[tokio::test]
async fn clock_set_back_loses_none_of_many_leases() {
    let [clock, stores] = [(); 2].map(|()| ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
    let limit = Quota::concurrency(300, TTL).unwrap();
    let limiter = Limiter::builder().limit("work", limit).store(memory(&stores)).build().unwrap();
    let shared = DistributedConcurrency::with_sleeper(&limiter, "work", clock.clone());
    let _held = hold(&shared, 300, &clock).await;
    clock.set(Timestamp::from_millis(1_799_996_400_000));
    shared.flush().await;
    for _ in 0..20 {
        until(|| clock.sleepers() == 1).await;
        stores.advance(TTL / 4);
        clock.advance(TTL / 4);
    }
    shared.flush().await;
    assert_eq!(free(&limiter, "a"), 0);
}

/// While its store is broken, a limit that decides locally has room for a part of this process's leases. The rest is
/// not lost by that.
#[tokio::test]
async fn store_that_fails_once_loses_no_lease() {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let store = FaultyStore::new(memory(&clock));
    let faults = store.faults();
    let store = Resilience::default().expected_replicas(4).build(store);
    let limit = Limit::new(Quota::concurrency(4, TTL).unwrap()).on_store_error(OnStoreError::Local);
    let limiter = Limiter::builder().limit("work", limit).store(store).build().unwrap();
    let shared = DistributedConcurrency::with_sleeper(&limiter, "work", clock.clone());
    let _held = hold(&shared, 3, &clock).await;
    let asked = faults.calls().apply_each;
    faults.fail(StoreError::new(StoreErrorKind::Unavailable, "unplugged for a moment"));
    clock.advance(TTL / 4);
    until(|| faults.calls().apply_each > asked && clock.sleepers() == 1).await;
    faults.pass();
    for _ in 0..8 {
        until(|| clock.sleepers() == 1).await;
        clock.advance(TTL / 4);
    }
    shared.flush().await;
    assert_eq!(free_in(&limiter).await, 1);
}

#[tokio::test]
async fn failing_store_admits_if_the_limit_fails_open() {
    for policy in [OnStoreError::Open, OnStoreError::Closed] {
        let clock = ManualClock::default();
        let store = FaultyStore::new(memory(&clock));
        let faults = store.faults();
        let limit = Limit::new(Quota::concurrency(1, TTL).unwrap()).on_store_error(policy);
        let limiter = Limiter::builder().limit("work", limit).store(store).build().unwrap();
        let shared = DistributedConcurrency::with_sleeper(&limiter, "work", clock);
        faults.fail(StoreError::new(StoreErrorKind::Unavailable, "unplugged"));
        match (policy, shared.try_acquire("a").await) {
            (OnStoreError::Open, Ok(permit)) => permit.release(Completion::Success),
            (OnStoreError::Closed, Err(AcquireError::Failed(_))) => {}
            (policy, answer) => panic!("{policy:?}: {answer:?}"),
        }
        shared.flush().await;
    }
}

/// The hint is the recent duration of work, or else the first expiry of a lease.
#[tokio::test]
async fn retry_hint_is_the_sooner_of_work_and_first_expiry() {
    let (shared, _, clock) = shared(1);
    let hint = |refused: Result<_, AcquireError>| match refused {
        Err(AcquireError::Rejected(refused)) => refused.retry_after(),
        other => panic!("{other:?}"),
    };
    let permit = shared.try_acquire("a").await.unwrap();
    assert_eq!(hint(shared.try_acquire("a").await.map(|_| ())), TTL);
    clock.advance(millis(50));
    permit.release(Completion::Success);
    shared.flush().await;
    let _held = shared.try_acquire("a").await.unwrap();
    assert_eq!(hint(shared.try_acquire("a").await.map(|_| ())), millis(50));
}
