//! Permits that are leases: kept while they are held, and given back.

use std::future::{Future, poll_fn};
use std::task::Poll;

use tidegate::concurrency::{NoPermit, Shared, Work};
use tidegate::{
    All, Capabilities, Decision, Key, Limiter, ManualClock, MemoryStore, Quota, Request, Store, StoreError, Timestamp,
    millis, seconds,
};
use tokio::task::yield_now;

const TTL: std::time::Duration = seconds(30);

fn shared(capacity: u64) -> (Shared, Limiter, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let limiter = Limiter::builder()
        .store(memory(&clock))
        .limit("work", Quota::concurrency(capacity, TTL).unwrap())
        .limit("rate", Quota::token_bucket(1, TTL).unwrap())
        .build()
        .unwrap();
    (Shared::on(&limiter, "work", clock.clone()), limiter, clock)
}

fn memory(clock: &ManualClock) -> MemoryStore {
    MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build()
}

fn free(limiter: &Limiter, key: &str) -> u64 {
    limiter.check("work", key).now().unwrap().unwrap().remaining()
}

/// A store whose answers take a moment after it has decided.
struct Slow(MemoryStore);

impl Store for Slow {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn apply_now(&self, _: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        let answer = self.0.apply(request).await;
        yield_now().await;
        answer
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<All, StoreError> {
        self.0.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.0.apply_each(requests).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

async fn until(condition: impl Fn() -> bool) {
    let holds = async {
        while !condition() {
            yield_now().await;
        }
    };
    tokio::time::timeout(seconds(30), holds).await.expect("what was waited for does not happen");
}

#[tokio::test]
async fn a_permit_is_a_lease_that_is_released_with_it() {
    let (shared, limiter, _) = shared(2);
    let first = shared.acquire("a").await.unwrap();
    let second = shared.acquire("a").await.unwrap();
    assert_eq!((first.in_flight(), second.in_flight(), free(&limiter, "a")), (1, 2, 0));
    let Err(NoPermit::Refused(refused)) = shared.acquire("a").await else { panic!("there is none") };
    assert_eq!((refused.limit(), refused.retry_after(), refused.is_shared()), (2, TTL, false));
    first.release(Work::Done);
    drop(second);
    until(|| free(&limiter, "a") == 2).await;
}

#[tokio::test]
async fn a_permit_that_is_held_for_long_keeps_its_place() {
    let (shared, limiter, clock) = shared(1);
    let permit = shared.acquire("a").await.unwrap();
    for _ in 0..30 {
        until(|| clock.sleepers() == 1).await; // the keeper waits for the next renewal
        clock.advance(seconds(10));
        yield_now().await;
        assert_eq!(free(&limiter, "a"), 0);
    }
    drop(permit);
    until(|| free(&limiter, "a") == 1).await;
}

#[tokio::test]
async fn a_call_that_is_given_up_holds_nothing() {
    let (_, limiter, clock) = shared(1);
    let slow = Limiter::builder().limit("work", limiter.quota("work").unwrap()).store(Slow(memory(&clock)));
    let limiter = slow.build().unwrap();
    let shared = Shared::on(&limiter, "work", clock);
    let free = || async { limiter.check("work", "a").await.unwrap().remaining() };
    let mut call = Box::pin(shared.acquire("a"));
    poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending(), "the store has given a place, and its answer is on the way");
        Poll::Ready(())
    })
    .await;
    assert_eq!(free().await, 0);
    drop(call);
    tokio::time::timeout(seconds(30), async { while free().await == 0 {} }).await.expect("it is released");
}

#[tokio::test]
async fn one_place_for_everybody_is_nobodys_fault() {
    let (shared, ..) = shared(1);
    let _held = shared.acquire(Key::GLOBAL).await.unwrap();
    let Err(NoPermit::Refused(refused)) = shared.acquire(Key::GLOBAL).await else { panic!("there is none") };
    assert!(refused.is_shared());
}

#[tokio::test]
async fn a_limit_of_another_kind_is_a_mistake() {
    let (_, limiter, clock) = shared(1);
    let Err(NoPermit::Failed(error)) = Shared::on(&limiter, "rate", clock).acquire("a").await else { panic!("no") };
    assert!(error.is_misuse(), "{error}");
}

#[tokio::test]
async fn a_runtime_that_ends_leaves_leases_that_expire() {
    let (shared, limiter, clock) = shared(1);
    let other = shared.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let permit = runtime.block_on(other.acquire("a")).unwrap();
        drop(runtime);
        drop(permit); // nobody is there to release it
    })
    .join()
    .unwrap();
    clock.advance(TTL - millis(1));
    assert_eq!(free(&limiter, "a"), 0);
    clock.advance(millis(1));
    assert_eq!(free(&limiter, "a"), 1);
}
