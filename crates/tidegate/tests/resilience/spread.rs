//! A spread limit looks before it takes: what becomes of that when the store is broken.

use std::future::IntoFuture;
use std::pin::pin;
use std::task::Poll;

use tidegate::resilience::{Fallback, Resilience};
use tidegate::{
    All, Call, Capabilities, Decision, Key, Limit, Limiter, MemoryStore, Quota, Reason, Request, ShardBy, Store,
    StoreError, StoreErrorKind, millis, minutes, seconds,
};
use tidegate_testkit::block_on;

use crate::support::{clock, error, faulty, poll};

/// Twelve a minute in two parts, and everybody is admitted when the store is broken.
fn limiter(store: impl Store + 'static) -> Limiter {
    let hot = Limit::new(Quota::fixed_window(12, minutes(1)).unwrap()).shards(2).unwrap();
    Limiter::builder().limit("hot", hot.shard_by(ShardBy::Spread)).store(store).build().unwrap()
}

fn ask(call: Call<'_>) -> Decision {
    block_on(call.into_future()).unwrap()
}

#[test]
fn a_spread_limit_waits_for_a_broken_store_once() {
    let clock = clock();
    let (store, faults) = faulty(&clock);
    // A breaker that never opens, so that every call would ask the store.
    let resilience = Resilience::new(clock.clone()).timeout(millis(20)).breaker(1_000, seconds(1));
    let limiter = limiter(resilience.build(store));
    // Two looks at once without waiting, and one call for those that are waited for.
    for (call, looks) in [(limiter.limit("hot", "u"), 2), (limiter.refund("hot", "u"), 1)] {
        faults.hang();
        let mut waiting = pin!(call.clone().into_future());
        assert!(poll(waiting.as_mut()).is_pending());
        clock.advance(millis(20));
        let Poll::Ready(Ok(decision)) = poll(waiting.as_mut()) else { panic!("it waits again") };
        assert!(decision.allowed());
        assert_eq!((decision.reason(), decision.limit()), (Some(Reason::Store), 12));
        faults.fail(error(StoreErrorKind::Unavailable));
        let before = faults.calls().decisions();
        assert_eq!(ask(call), decision);
        assert_eq!(faults.calls().decisions() - before, looks);
    }
}

#[test]
fn a_part_that_answers_is_asked_before_one_that_does_not() {
    let memory = MemoryStore::builder().clock(clock()).build();
    let limiter = limiter(Fallback::new(Without { key: Key::from("u").with_shard(0), memory }).clock(clock()));
    for left in (0..6).rev() {
        let taken = ask(limiter.limit("hot", "u"));
        assert_eq!((taken.reason(), taken.remaining()), (None, left));
    }
    for left in 1..=6 {
        let given = ask(limiter.refund("hot", "u"));
        assert_eq!((given.reason(), given.remaining()), (None, left));
    }
}

/// A store that has lost the server of one key.
struct Without {
    key: Key<'static>,
    memory: MemoryStore,
}

impl Store for Without {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn apply_now(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        if *request.key == self.key {
            return Some(Err(error(StoreErrorKind::Unavailable)));
        }
        self.memory.apply_now(request)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.apply_now(request).expect("an answer at once")
    }

    async fn apply_all(&self, _: &[Request<'_>]) -> Result<All, StoreError> {
        Err(error(StoreErrorKind::Unsupported))
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        requests.iter().map(|request| self.apply_now(request).expect("an answer at once")).collect()
    }

    async fn close(&self) {}
}
