//! Calls that wait for a store: hanging, late or broken.

use std::future::IntoFuture;
use std::task::Poll;
use std::thread;

use tidegate::{Error, Lease, Limit, Limiter, MemoryStore, Reason, StoreError, StoreErrorKind, days, millis};
use tidegate_testkit::{Faults, FaultyStore, block_on};

use crate::support::{Crowd, bucket, builder, clock, decide, left, limit_all, memory, poll, window};

/// Creates a limiter over a store that can be made slow.
fn slow_store_limiter() -> (Limiter, Faults) {
    let clock = clock();
    let store = FaultyStore::new(memory(&clock));
    let faults = store.faults();
    let limiter = Limiter::builder()
        .limit("login", bucket(3))
        .limit("listed", Limit::new(bucket(3)).deny(["mallory"]).unwrap())
        .limit("hot", window(10))
        .bare_store(store)
        .sleeper(clock)
        .build()
        .unwrap();
    (limiter, faults)
}

/// Returns the remaining units of a key after the store recovered.
fn left_after_recovery(limiter: &Limiter, faults: &Faults, name: &str) -> u64 {
    faults.pass();
    left(limiter, name, "u")
}

#[test]
fn waiting_call_completes_when_the_store_answers() {
    let (limiter, faults) = slow_store_limiter();
    for slow_down in [Faults::hang, Faults::delay_responses] {
        slow_down(&faults);
        let mut call = limiter.limit("login", "u").into_future();
        for _ in 0..3 {
            assert!(poll(&mut call).is_pending());
            assert_eq!(faults.held_calls(), 1);
        }
        faults.release();
        assert!(matches!(poll(&mut call), Poll::Ready(Ok(decision)) if decision.allowed()));
    }
    assert_eq!(left_after_recovery(&limiter, &faults, "login"), 1);
}

#[test]
fn every_operation_can_wait_for_the_store() {
    let (limiter, faults) = slow_store_limiter();
    faults.hang();
    let mut crowd = Crowd::default();
    crowd.join(limiter.limit("login", "u").cost(3));
    crowd.join(limiter.check("login", "v"));
    crowd.join(limiter.reserve("login", "w").cost(2));
    crowd.join(limiter.refund("login", "x"));
    crowd.join(limiter.reset("login", "y"));
    crowd.join(limiter.acquire("login", "z", days(1)));
    assert_eq!((crowd.answered().len(), faults.held_calls()), (0, 6));
    faults.release();
    crowd.run();
    let mut answered = crowd.answered();
    answered.sort_unstable();
    assert_eq!(answered, (0..6).map(|number| (number, true)).collect::<Vec<_>>());
}

#[test]
fn try_now_on_a_slow_store_does_nothing() {
    let (limiter, faults) = slow_store_limiter();
    for slow_down in [Faults::hang, Faults::delay_responses] {
        slow_down(&faults);
        for name in ["login", "hot"] {
            assert!(matches!(limiter.limit(name, "u").try_now(), Err(Error::WouldBlock)));
            assert!(matches!(limiter.reset(name, "u").try_now(), Err(Error::WouldBlock)));
        }
        assert_eq!(faults.held_calls(), 0);
    }
    assert_eq!(
        (left_after_recovery(&limiter, &faults, "login"), left_after_recovery(&limiter, &faults, "hot")),
        (3, 10)
    );
}

#[test]
fn calls_without_the_store_complete_while_it_hangs() {
    let (limiter, faults) = slow_store_limiter();
    faults.hang();
    assert_eq!(decide(limiter.limit("listed", "mallory")).reason(), Some(Reason::Deny));
    assert!(matches!(limiter.limit("nobody", "u").try_now(), Err(Error::UnknownLimit(_))));
    assert!(matches!(limiter.limit("login", "u").cost(0).try_now(), Err(Error::InvalidCost(_))));
    assert!(matches!(limiter.renew("hot", "u", Lease::from_bits(1)).try_now(), Err(Error::Unsupported(_))));
    assert!(limiter.set_quota("login", bucket(4)).is_ok());
    assert_eq!(faults.held_calls(), 0);
}

#[test]
fn call_that_was_never_polled_takes_nothing() {
    let (limiter, faults) = slow_store_limiter();
    faults.hang();
    drop(limiter.limit("login", "u"));
    drop(limiter.limit("login", "u").into_future());
    drop(limiter.acquire("login", "u", days(1)).into_future());
    drop(limiter.limit_all([limiter.limit("login", "u")]));
    assert_eq!((faults.calls().decisions(), left_after_recovery(&limiter, &faults, "login")), (0, 3));
}

#[test]
fn dropped_waiting_call_takes_nothing() {
    let (limiter, faults) = slow_store_limiter();
    faults.hang();
    for name in ["login", "hot"] {
        for call in [limiter.limit(name, "u"), limiter.check(name, "u"), limiter.acquire(name, "u", days(1))] {
            let mut call = call.into_future();
            assert!(poll(&mut call).is_pending());
            drop(call);
            assert_eq!(faults.held_calls(), 0);
        }
        let mut both = Box::pin(limiter.limit_all([limiter.limit(name, "u"), limiter.limit("login", "v")]));
        assert!(poll(&mut both).is_pending());
        drop(both);
    }
    faults.release();
    assert_eq!(
        (left_after_recovery(&limiter, &faults, "login"), left_after_recovery(&limiter, &faults, "hot")),
        (3, 10)
    );
}

#[test]
fn call_dropped_after_the_store_applied_it_has_taken() {
    let (limiter, faults) = slow_store_limiter();
    faults.delay_responses();
    let mut call = limiter.limit("login", "u").into_future();
    assert!(poll(&mut call).is_pending());
    drop(call);
    assert_eq!(left_after_recovery(&limiter, &faults, "login"), 2);
}

#[test]
fn dropped_acquire_passes_its_turn_on() {
    let (limiter, faults) = slow_store_limiter();
    faults.hang();
    let mut crowd = Crowd::default();
    let first = crowd.join(limiter.acquire("login", "u", days(1)));
    let second = crowd.join(limiter.acquire("login", "u", days(1)));
    // Only the first in the queue calls the store.
    assert_eq!(faults.held_calls(), 1);
    crowd.leave(first);
    crowd.run();
    assert_eq!(faults.held_calls(), 1);
    faults.release();
    crowd.run();
    assert_eq!(crowd.answered(), [(second, true)]);
    assert_eq!(left_after_recovery(&limiter, &faults, "login"), 2);
}

#[test]
fn failed_acquire_passes_its_turn_on() {
    let (limiter, faults) = slow_store_limiter();
    let mut crowd = Crowd::default();
    faults.hang();
    crowd.join(limiter.acquire("login", "u", days(1)));
    crowd.join(limiter.acquire("login", "u", days(1)));
    faults.fail(StoreError::new(StoreErrorKind::Unavailable, "unplugged"));
    faults.release();
    crowd.run();
    let answers = crowd.answers();
    assert!(
        matches!(answers.as_slice(), [(0, Ok(first)), (1, Err(Error::Store(_)))] if first.allowed()),
        "{answers:?}"
    );
    faults.pass();
    assert_eq!(decide(limiter.acquire("login", "u", days(1))).remaining(), 1);
}

#[test]
fn joint_call_can_wait_for_the_store() {
    let (limiter, faults) = slow_store_limiter();
    for slow_down in [Faults::hang, Faults::delay_responses] {
        slow_down(&faults);
        let calls = [limiter.limit("login", "u"), limiter.limit("hot", "u"), limiter.limit("listed", "u")];
        let mut three = Box::pin(limiter.limit_all(calls));
        assert!(poll(&mut three).is_pending());
        faults.release();
        assert!(matches!(poll(&mut three), Poll::Ready(Ok(answer)) if answer.allowed()));
    }
    assert_eq!(
        (left_after_recovery(&limiter, &faults, "login"), left_after_recovery(&limiter, &faults, "hot")),
        (1, 8)
    );
}

#[test]
fn waiting_store_decides_like_an_immediate_one() {
    let (limiter, faults) = slow_store_limiter();
    faults.hang();
    let release = |call: tidegate::Call<'_>| {
        let mut call = call.into_future();
        loop {
            match poll(&mut call) {
                Poll::Ready(answer) => return answer.unwrap(),
                Poll::Pending => faults.release(),
            }
        }
    };
    let admitted = (0..100).filter(|_| release(limiter.limit("hot", "u")).allowed()).count();
    assert_eq!((admitted, release(limiter.check("hot", "u")).remaining()), (10, 0));
    assert!(release(limiter.refund("hot", "u").cost(2)).allowed());
    assert_eq!(release(limiter.check("hot", "u")).remaining(), 2);
    assert_eq!(release(limiter.reset("hot", "u")).remaining(), 10);
}

#[test]
fn waiting_call_returns_the_error_of_the_store() {
    let failing = FaultyStore::new(memory(&clock()));
    let failures = failing.faults();
    let slow = FaultyStore::new(failing);
    let faults = slow.faults();
    let limiter = Limiter::builder().limit("hot", window(10)).bare_store(slow).build().unwrap();
    faults.hang();
    let mut call = limiter.limit("hot", "u").into_future();
    assert!(poll(&mut call).is_pending());
    failures.fail(StoreError::new(StoreErrorKind::Timeout, "too slow"));
    faults.release();
    let answer = poll(&mut call);
    assert!(matches!(&answer, Poll::Ready(Err(error)) if error.is_retryable()), "{answer:?}");
    failures.pass();
    assert_eq!(left_after_recovery(&limiter, &faults, "hot"), 10);
}

#[test]
fn limiter_closed_before_the_first_poll_rejects_the_call() {
    let (limiter, faults) = slow_store_limiter();
    faults.hang();
    let mut call = limiter.limit("login", "u").into_future();
    block_on(limiter.close());
    assert!(matches!(poll(&mut call), Poll::Ready(Err(Error::Closed))));
}

#[test]
fn callers_on_many_threads_all_complete() {
    let clock = clock();
    let store = FaultyStore::new(MemoryStore::builder().max_keys(100).clock(clock.clone()).build());
    let faults = store.faults();
    let limiter = Limiter::builder().limit("login", bucket(20)).bare_store(store).sleeper(clock).build().unwrap();
    faults.hang();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|number| {
                let limiter = limiter.clone();
                scope.spawn(move || {
                    let mut admitted = 0;
                    for _ in 0..10 {
                        let call = match number % 2 {
                            0 => limiter.limit("login", "u"),
                            _ => limiter.acquire("login", "u", millis(0)),
                        };
                        admitted += u32::from(decide(call).allowed());
                    }
                    admitted
                })
            })
            .collect();
        while !callers.iter().all(|caller| caller.is_finished()) {
            faults.release();
            thread::yield_now();
        }
        let admitted: u32 = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
        assert_eq!(admitted, 20);
    });
}

#[test]
fn immediate_store_completes_at_the_first_poll() {
    let limiter = builder(&clock()).limit("login", bucket(3)).build().unwrap();
    assert!(matches!(poll(&mut limiter.limit("login", "u").into_future()), Poll::Ready(Ok(_))));
    let mut both = Box::pin(limiter.limit_all([limiter.limit("login", "u"), limiter.limit("login", "v")]));
    assert!(matches!(poll(&mut both), Poll::Ready(Ok(_))));
    assert!(limit_all(&limiter, [limiter.limit("login", "u")]).allowed());
}
