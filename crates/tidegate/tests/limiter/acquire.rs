//! Waiting until a quota admits, in order and for a bounded time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidegate::store::BoxFuture;
use tidegate::{
    Clock, Error, Limit, Limiter, ManualClock, MemoryStore, Normalize, Quota, Reason, Sleeper, Timestamp, days, millis,
    seconds,
};
use tidegate_testkit::block_on;

use crate::support::{Crowd, builder, clock, decide, left, poll};

const MICROSECOND: Duration = Duration::from_micros(1);

/// Creates a limiter with `capacity` units and one more every second.
fn one_per_second(clock: &ManualClock, capacity: u64) -> Limiter {
    let quota = Quota::token_bucket(1, seconds(1)).unwrap().capacity(capacity).unwrap();
    builder(clock).limit("send", quota).build().unwrap()
}

/// Creates that limiter with nothing left for the key `u`.
fn exhausted(clock: &ManualClock, capacity: u64) -> Limiter {
    let limiter = one_per_second(clock, capacity);
    assert!(decide(limiter.limit("send", "u").cost(capacity)).allowed());
    limiter
}

#[test]
fn available_units_are_taken_without_waiting() {
    let clock = clock();
    let limiter = one_per_second(&clock, 3);
    let decision = decide(limiter.acquire("send", "u", Duration::ZERO).cost(2));
    assert!(decision.allowed());
    assert_eq!((decision.remaining(), decision.retry_after(), clock.sleepers()), (1, None, 0));
}

#[test]
fn acquire_waits_exactly_until_retry_after() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    for cost in [1, 3, 5, 2] {
        let wait = decide(limiter.check("send", "u").cost(cost)).retry_after().unwrap();
        assert_eq!(wait, seconds(cost));
        let mut crowd = Crowd::default();
        crowd.join(limiter.acquire("send", "u", days(1)).cost(cost));
        // Until then, and for at most a day.
        assert_eq!((crowd.answered().len(), clock.sleepers()), (0, 2));
        crowd.advance(&clock, wait - MICROSECOND);
        assert!(crowd.answered().is_empty());
        crowd.advance(&clock, MICROSECOND);
        assert_eq!(crowd.answered(), [(0, true)]);
        assert_eq!((left(&limiter, "send", "u"), clock.sleepers()), (0, 0));
    }
}

#[test]
fn acquire_takes_its_cost_exactly_once() {
    let clock = clock();
    let limiter = exhausted(&clock, 10);
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("send", "u", days(1)).cost(2));
    crowd.advance(&clock, seconds(6));
    assert_eq!(crowd.answered(), [(0, true)]);
    assert_eq!(left(&limiter, "send", "u"), 4);
}

#[test]
fn wait_longer_than_the_maximum_is_denied_at_once() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let denied = decide(limiter.acquire("send", "u", seconds(3) - MICROSECOND).cost(3));
    assert!(!denied.allowed());
    assert_eq!((denied.reason(), denied.retry_after()), (Some(Reason::Rate), Some(seconds(3))));
    assert_eq!(clock.sleepers(), 0);
    // A wait of exactly that time is accepted.
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("send", "u", seconds(3)).cost(3));
    assert!(crowd.answered().is_empty());
    crowd.advance(&clock, seconds(3));
    assert_eq!(crowd.answered(), [(0, true)]);
}

#[test]
fn cost_above_the_capacity_is_denied_at_once() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let denied = decide(limiter.acquire("send", "u", days(1)).cost(6));
    assert_eq!((denied.allowed(), denied.reason()), (false, Some(Reason::CostExceedsCapacity)));
    assert_eq!((denied.retry_after(), clock.sleepers()), (None, 0));
}

#[test]
fn units_taken_by_others_prolong_the_wait_up_to_the_deadline() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let mut crowd = Crowd::default();
    let patient = crowd.join(limiter.acquire("send", "u", seconds(9)).cost(2));
    clock.advance(seconds(1));
    // A plain `limit` does not wait in the queue.
    assert!(decide(limiter.limit("send", "u")).allowed());
    crowd.advance(&clock, seconds(1));
    assert!(crowd.answered().is_empty());
    crowd.advance(&clock, seconds(1));
    assert_eq!(crowd.answered(), [(patient, true)]);

    let hurried = crowd.join(limiter.acquire("send", "u", seconds(2)).cost(2));
    clock.advance(seconds(1));
    assert!(decide(limiter.limit("send", "u")).allowed());
    // At its turn, it would have to wait one second longer than permitted.
    crowd.advance(&clock, seconds(1));
    assert_eq!(crowd.answered(), [(hurried, false)]);
    assert_eq!((left(&limiter, "send", "u"), clock.sleepers()), (1, 0));
}

#[test]
fn waiters_are_served_in_order_regardless_of_cost() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let mut crowd = Crowd::default();
    for cost in [5, 1, 3, 1, 4, 2] {
        crowd.join(limiter.acquire("send", "u", days(1)).cost(cost));
    }
    let mut served = Vec::new();
    for second in 1..=16 {
        crowd.advance(&clock, seconds(1));
        served.extend(crowd.answered().into_iter().map(|(number, allowed)| (second, number, allowed)));
    }
    let expected = [(5, 0), (6, 1), (9, 2), (10, 3), (14, 4), (16, 5)];
    assert_eq!(served, expected.map(|(second, number)| (second, number, true)));
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn clock_jump_serves_all_waiters_it_suffices_for_in_order() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let mut crowd = Crowd::default();
    for cost in [2, 1, 1, 5] {
        crowd.join(limiter.acquire("send", "u", days(1)).cost(cost));
    }
    crowd.advance(&clock, seconds(5));
    assert_eq!(crowd.answered(), [(0, true), (1, true), (2, true)]);
    // One was left over, and four more make five.
    crowd.advance(&clock, seconds(4) - MICROSECOND);
    assert!(crowd.answered().is_empty());
    crowd.advance(&clock, MICROSECOND);
    assert_eq!(crowd.answered(), [(3, true)]);
}

#[test]
fn smaller_cost_does_not_overtake_the_queue() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    clock.advance(seconds(2));
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("send", "u", days(1)).cost(5));
    crowd.join(limiter.acquire("send", "u", days(1)).cost(1));
    assert!(crowd.answered().is_empty());
    crowd.advance(&clock, seconds(3));
    assert_eq!(crowd.answered(), [(0, true)]);
    crowd.advance(&clock, seconds(1));
    assert_eq!(crowd.answered(), [(1, true)]);
}

#[test]
fn keys_and_limits_have_separate_queues() {
    let clock = clock();
    let quota = Quota::token_bucket(1, seconds(1)).unwrap();
    let limiter = builder(&clock).limit("send", quota).limit("read", quota).build().unwrap();
    let _ = decide(limiter.limit("send", "u"));
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("send", "u", days(1)));
    let free = [
        crowd.join(limiter.acquire("send", "v", days(1))),
        crowd.join(limiter.acquire("read", "u", days(1))),
        crowd.join(limiter.acquire("send", ("u", ""), days(1))),
        crowd.join(limiter.acquire("send", tidegate::Key::GLOBAL, days(1))),
        crowd.join(limiter.acquire("send", "", days(1))),
    ];
    assert_eq!(crowd.answered(), free.map(|number| (number, true)));
}

#[test]
fn waiter_that_misses_its_deadline_is_denied_and_takes_nothing() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let mut crowd = Crowd::default();
    let first = crowd.join(limiter.acquire("send", "u", days(1)).cost(5));
    let second = crowd.join(limiter.acquire("send", "u", seconds(3)).cost(1));
    let third = crowd.join(limiter.acquire("send", "u", days(1)).cost(1));
    crowd.advance(&clock, seconds(3) - MICROSECOND);
    assert!(crowd.answered().is_empty());
    crowd.advance(&clock, MICROSECOND);
    // Three units are left, but they are for the first in the queue.
    assert_eq!(crowd.answered(), [(second, false)]);
    assert_eq!(left(&limiter, "send", "u"), 3);
    crowd.advance(&clock, seconds(2));
    assert_eq!(crowd.answered(), [(first, true)]);
    crowd.advance(&clock, seconds(1));
    assert_eq!(crowd.answered(), [(third, true)]);
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn denial_in_the_queue_has_the_reason_of_the_quota() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    clock.advance(seconds(2));
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("send", "u", days(1)).cost(5));
    crowd.join(limiter.acquire("send", "u", Duration::ZERO).cost(1));
    crowd.join(limiter.acquire("send", "u", Duration::ZERO).cost(4));
    let answers = crowd.answers();
    let [(1, Ok(cheap)), (2, Ok(dear))] = answers.as_slice() else { panic!("{answers:?}") };
    for denied in [cheap, dear] {
        assert!(!denied.allowed());
        assert_eq!((denied.reason(), denied.limit(), denied.remaining()), (Some(Reason::Rate), 5, 2));
    }
    assert_eq!((cheap.retry_after(), dear.retry_after()), (Some(Duration::ZERO), Some(seconds(2))));
}

#[test]
fn time_in_the_queue_counts_towards_the_deadline() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let mut crowd = Crowd::default();
    let first = crowd.join(limiter.acquire("send", "u", days(1)).cost(3));
    let second = crowd.join(limiter.acquire("send", "u", seconds(4)).cost(2));
    let third = crowd.join(limiter.acquire("send", "u", seconds(4)).cost(1));
    crowd.advance(&clock, seconds(3));
    // The second had one second left at its turn, and would have needed two. The third needs only one.
    assert_eq!(crowd.answered(), [(first, true), (second, false)]);
    crowd.advance(&clock, seconds(1));
    assert_eq!(crowd.answered(), [(third, true)]);
}

#[test]
fn dropped_waiter_leaves_the_queue() {
    for leaver in 0..3 {
        let clock = clock();
        let limiter = exhausted(&clock, 5);
        let mut crowd = Crowd::default();
        for cost in [2, 2, 2] {
            crowd.join(limiter.acquire("send", "u", days(1)).cost(cost));
        }
        clock.advance(seconds(1));
        crowd.leave(leaver);
        crowd.run();
        let mut served = Vec::new();
        for second in 2..=6 {
            crowd.advance(&clock, seconds(1));
            served.extend(crowd.answered().into_iter().map(|(number, allowed)| (second, number, allowed)));
        }
        let stayed: Vec<_> = (0..3).filter(|number| *number != leaver).collect();
        assert_eq!(served, [(2, stayed[0], true), (4, stayed[1], true)], "{leaver} left");
        assert_eq!((clock.sleepers(), left(&limiter, "send", "u")), (0, 2));
    }
}

#[test]
fn leaving_waiter_does_not_reorder_the_queue() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let mut crowd = Crowd::default();
    let first = crowd.join(limiter.acquire("send", "u", days(1)).cost(5));
    let second = crowd.join(limiter.acquire("send", "u", days(1)).cost(1));
    let third = crowd.join(limiter.acquire("send", "u", days(1)).cost(1));
    crowd.leave(third);
    crowd.run();
    // Enough for the second, but it is not its turn.
    crowd.advance(&clock, seconds(4));
    assert!(crowd.answered().is_empty());
    crowd.advance(&clock, seconds(1));
    assert_eq!(crowd.answered(), [(first, true)]);
    crowd.advance(&clock, seconds(1));
    assert_eq!(crowd.answered(), [(second, true)]);
}

#[test]
fn waiter_dropped_after_its_wake_up_passes_its_turn_on() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let mut crowd = Crowd::default();
    for _ in 0..4 {
        crowd.join(limiter.acquire("send", "u", days(1)));
    }
    // The first leaves, which wakes the second. The second leaves before it is polled, and so does the third.
    for leaver in 0..3 {
        crowd.leave(leaver);
    }
    crowd.run();
    crowd.advance(&clock, seconds(1));
    assert_eq!(crowd.answered(), [(3, true)]);
}

#[test]
fn call_that_was_never_polled_is_not_queued() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let idle = IntoFuture::into_future(limiter.acquire("send", "u", days(1)));
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("send", "u", days(1)));
    crowd.advance(&clock, seconds(1));
    assert_eq!(crowd.answered(), [(0, true)]);
    drop(idle);
}

#[test]
fn emptied_queue_can_be_used_again() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    for _ in 0..3 {
        let mut crowd = Crowd::default();
        for _ in 0..3 {
            crowd.join(limiter.acquire("send", "u", days(1)));
        }
        crowd.advance(&clock, seconds(1));
        assert_eq!(crowd.answered(), [(0, true)]);
        drop(crowd);
        assert_eq!(clock.sleepers(), 0);
    }
}

#[test]
fn try_now_does_not_wait() {
    let clock = clock();
    let limiter = one_per_second(&clock, 1);
    assert!(matches!(limiter.acquire("send", "u", days(1)).try_now(), Err(Error::WouldBlock)));
    assert_eq!(left(&limiter, "send", "u"), 1);
}

#[test]
fn wake_up_goes_to_the_last_waker() {
    // A future that moves to another task has another waker.
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let mut first = IntoFuture::into_future(limiter.acquire("send", "u", days(1)));
    let mut second = IntoFuture::into_future(limiter.acquire("send", "u", days(1)));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    thread::scope(|scope| {
        let moved = [scope.spawn(|| block_on(first).unwrap()), scope.spawn(|| block_on(second).unwrap())];
        while !moved.iter().all(|thread| thread.is_finished()) {
            clock.advance(millis(100));
            thread::yield_now();
        }
        assert!(moved.into_iter().all(|thread| thread.join().unwrap().allowed()));
    });
}

#[test]
fn competing_threads_lose_no_wake_up() {
    const CALLERS: u64 = 8;
    const TURNS: u64 = 25;
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let start = clock.clone();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| {
                let limiter = limiter.clone();
                scope.spawn(move || {
                    for _ in 0..TURNS {
                        assert!(decide(limiter.acquire("send", "u", days(1)).cost(1 + number % 3)).allowed());
                    }
                })
            })
            .collect();
        while !callers.iter().all(|caller| caller.is_finished()) {
            // Time moves only while a caller sleeps. A caller whose wake-up was lost would sleep on in a queue that
            // serves no caller, and this loop would never end.
            if clock.sleepers() > 0 {
                clock.advance(millis(500));
            }
            thread::yield_now();
        }
    });
    let taken: u64 = (0..CALLERS).map(|number| (1 + number % 3) * TURNS).sum();
    let passed = tidegate::Clock::now(&start).since(tidegate::Clock::now(&self::clock()));
    assert!(passed >= seconds(taken), "{taken} were had in {passed:?}");
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn threads_are_served_in_order() {
    let clock = clock();
    // Never more than one at once: the next caller needs the clock, which waits until the last one is recorded.
    let limiter = exhausted(&clock, 1);
    let order = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..6_usize {
            let (limiter, order) = (&limiter, &order);
            scope.spawn(move || {
                assert!(decide(limiter.acquire("send", "u", days(1))).allowed());
                order.lock().unwrap().push(number);
            });
            // Each is in the queue before the next one comes. All wait for the deadline, and the first waits for
            // budget, too.
            while clock.sleepers() < number + 2 {
                thread::yield_now();
            }
        }
        for served in 1..=6 {
            while order.lock().unwrap().len() < served {
                // All sleep until their deadlines, and the next one until its turn.
                if clock.sleepers() == 8 - served {
                    clock.advance(millis(250));
                }
                thread::yield_now();
            }
        }
    });
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[cfg(not(feature = "tokio"))]
#[test]
fn acquire_without_a_sleeper_is_an_error_and_takes_nothing() {
    let clock = clock();
    let quota = Quota::token_bucket(1, seconds(1)).unwrap();
    let limiter = Limiter::builder().limit("send", quota).store(crate::support::memory(&clock)).build().unwrap();
    let error = crate::support::expect_error(limiter.acquire("send", "u", days(1)));
    assert!(matches!(error, tidegate::Error::NoSleeper) && error.is_misuse() && !error.is_retryable(), "{error:?}");
    assert_eq!(left(&limiter, "send", "u"), 1);
}

#[cfg(feature = "tokio")]
#[test]
fn tokio_feature_provides_the_timer() {
    let [quota, slow] = [millis(5), days(1)].map(|period| Quota::token_bucket(1, period).unwrap());
    let limiter = Limiter::builder().limit("send", quota).limit("seldom", slow).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let began = tokio::time::Instant::now();
        for _ in 0..4 {
            assert!(limiter.acquire("send", "u", seconds(60)).await.unwrap().allowed());
        }
        assert!(began.elapsed() >= millis(14), "{:?}", began.elapsed());
        assert!(limiter.acquire("seldom", "u", seconds(60)).await.unwrap().allowed());
        // Time passes between two reads of the clock, but that is not a wait.
        assert!(limiter.acquire("seldom", "v", Duration::ZERO).await.unwrap().allowed());
        let denied = limiter.acquire("seldom", "u", Duration::ZERO).await.unwrap();
        assert_eq!((denied.allowed(), denied.reason()), (false, Some(Reason::Rate)));
    });
}

#[test]
fn acquire_uses_the_quota_of_its_call() {
    let clock = clock();
    let limiter = exhausted(&clock, 5);
    let fast = Quota::token_bucket(10, seconds(1)).unwrap().capacity(5).unwrap();
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("send", "u", days(1)).with_quota(&fast));
    crowd.advance(&clock, millis(100) - MICROSECOND);
    assert!(crowd.answered().is_empty());
    crowd.advance(&clock, MICROSECOND);
    assert_eq!(crowd.answered(), [(0, true)]);
}

#[test]
fn shadow_limit_never_waits() {
    let clock = clock();
    let quota = Quota::token_bucket(1, seconds(1)).unwrap();
    let limiter = builder(&clock).limit("send", Limit::new(quota).shadow(true)).build().unwrap();
    for expected in [None, Some(Reason::Rate), Some(Reason::Rate)] {
        let decision = decide(limiter.acquire("send", "u", Duration::ZERO));
        assert_eq!((decision.allowed(), decision.reason()), (true, expected));
    }
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn acquire_waits_under_every_algorithm() {
    let quotas = [
        Quota::token_bucket(2, seconds(1)).unwrap(),
        Quota::fixed_window(2, seconds(1)).unwrap(),
        Quota::sliding_window(2, seconds(1)).unwrap(),
        Quota::sliding_window(2, seconds(1)).unwrap().buckets(4).unwrap(),
        Quota::sliding_log(2, seconds(1)).unwrap(),
    ];
    for quota in quotas {
        let clock = clock();
        clock.advance(millis(300));
        let limiter = builder(&clock).limit("send", quota).build().unwrap();
        let _ = decide(limiter.limit("send", "u").cost(2));
        let wait = decide(limiter.check("send", "u").cost(2)).retry_after().unwrap();
        let mut crowd = Crowd::default();
        crowd.join(limiter.acquire("send", "u", wait).cost(2));
        crowd.advance(&clock, wait - MICROSECOND);
        assert!(crowd.answered().is_empty(), "{quota:?}");
        crowd.advance(&clock, MICROSECOND);
        assert_eq!(crowd.answered(), [(0, true)], "{quota:?}");
    }
}

#[test]
fn acquire_waits_for_a_normalized_key() {
    let clock = clock();
    let quota = Quota::token_bucket(1, seconds(1)).unwrap();
    let limiter = builder(&clock).limit("send", Limit::new(quota).normalize(Normalize::Lowercase)).build().unwrap();
    let _ = decide(limiter.limit("send", "Bob"));
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("send", "BOB", days(1)));
    crowd.advance(&clock, seconds(1));
    assert_eq!(crowd.answered(), [(0, true)]);
    assert_eq!(left(&limiter, "send", "bob"), 0);
}

/// A clock that can be set back without affecting its sleeps.
#[derive(Clone)]
struct SettableClock {
    clock: ManualClock,
    back: Arc<AtomicU64>,
}

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now().as_micros() - self.back.load(Ordering::Relaxed))
    }
}

impl Sleeper for SettableClock {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(span)
    }
}

#[test]
fn clock_set_back_prolongs_no_wait() {
    let clock = SettableClock { clock: clock(), back: Arc::default() };
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let quota = Quota::token_bucket(1, seconds(1)).unwrap().capacity(5).unwrap();
    let limiter = Limiter::builder().limit("send", quota).store(store).sleeper(clock.clone()).build().unwrap();
    assert!(decide(limiter.limit("send", "u").cost(5)).allowed());
    let mut crowd = Crowd::default();
    crowd.join(limiter.acquire("send", "u", seconds(10)).cost(5));
    crowd.advance(&clock.clock, seconds(4));
    clock.back.store(60_000_000, Ordering::Relaxed);
    crowd.advance(&clock.clock, seconds(6) - MICROSECOND);
    assert!(crowd.answered().is_empty());
    crowd.advance(&clock.clock, MICROSECOND);
    assert_eq!(crowd.answered(), [(0, false)]);
}
