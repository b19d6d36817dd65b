//! Waiting for a slot: in order, bounded, and nothing is lost when a caller leaves.

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tidegate::concurrency::{FairConcurrency, Permit, RejectReason};
use tidegate::store::BoxFuture;
use tidegate::{Clock, Sleeper, Timestamp, days, millis, seconds};
use tidegate_testkit::block_on;

use crate::crowd::{Acquire, Crowd, all_of, clock, fair};

/// Returns the tenants served, in order, when slots are released one by one and each new owner keeps its slot.
fn served_one_by_one(crowd: &mut Crowd, held: Vec<Permit>) -> Vec<usize> {
    let mut kept = Vec::new();
    for permit in held {
        drop(permit);
        crowd.run();
        kept.extend(crowd.permits());
    }
    kept.iter().map(|(caller, _)| *caller).collect()
}

#[test]
fn free_slot_needs_no_waiting() {
    let fair = fair(1, &clock()).build();
    assert!(block_on(fair.acquire("a", seconds(0))).is_ok());
}

#[test]
fn callers_of_one_tenant_are_served_in_order() {
    let fair = fair(3, &clock()).build();
    let held = all_of(&fair, "a");
    let mut crowd = Crowd::default();
    let callers: Vec<_> = (0..3).map(|_| crowd.join(&fair, "a", days(1))).collect();
    assert_eq!(served_one_by_one(&mut crowd, held), callers);
}

#[test]
fn free_slot_goes_first_to_a_tenant_below_its_guarantee() {
    let fair = fair(6, &clock()).weight("big", 5).build();
    let held = all_of(&fair, "big");
    let mut crowd = Crowd::default();
    let big: Vec<_> = (0..2).map(|_| crowd.join(&fair, "big", days(1))).collect();
    // It comes later, and has a claim to one of six.
    let small = crowd.join(&fair, "small", days(1));
    assert_eq!(served_one_by_one(&mut crowd, held), [small, big[0], big[1]]);
}

#[test]
fn borrowed_slot_goes_to_the_least_load_then_to_the_longest_wait() {
    let clock = clock();
    let fair = fair(3, &clock).weight("heavy", 2).weight("busy", 2).weight("gone", 100).build();
    let mut held = all_of(&fair, "gone");
    let mut crowd = Crowd::default();
    let caller = |crowd: &mut Crowd, tenant| crowd.join(&fair, tenant, days(1));
    let busy: Vec<_> = (0..2).map(|_| caller(&mut crowd, "busy")).collect();
    let (light, heavy) = (caller(&mut crowd, "light"), caller(&mut crowd, "heavy"));
    assert_eq!(fair.share("heavy").unwrap().guarantee, 0, "all but gone borrow");
    // Rounding leaves one slot. The rest is reserved for `gone` until it is absent.
    assert_eq!(fair.share("gone").unwrap().guarantee, 2);
    drop(held.pop());
    crowd.run();
    let first = crowd.permits();
    assert_eq!(first[0].0, busy[0], "the longest of those with nothing");
    held.clear();
    crowd.advance(&clock, seconds(10));
    let then: Vec<_> = crowd.answers().into_iter().map(|(caller, _)| caller).collect();
    assert_eq!(then, [light, heavy], "before the tenant that has a slot");
}

#[test]
fn equal_tenants_take_turns() {
    let fair = fair(1, &clock()).build();
    let mut held = fair.try_acquire("many").ok();
    let mut crowd = Crowd::default();
    let many: Vec<_> = (0..3).map(|_| crowd.join(&fair, "many", days(1))).collect();
    let few: Vec<_> = (0..2).map(|_| crowd.join(&fair, "few", days(1))).collect();
    let mut served = Vec::new();
    while held.take().is_some() {
        crowd.run();
        if let Some((caller, permit)) = crowd.permits().pop() {
            served.push(caller);
            held = Some(permit);
        }
    }
    assert_eq!(served, [many[0], few[0], many[1], few[1], many[2]]);
}

#[test]
fn try_acquire_never_overtakes_a_waiting_caller() {
    let fair = fair(2, &clock()).build();
    let mut held = all_of(&fair, "a");
    let mut crowd = Crowd::default();
    let waits = crowd.join(&fair, "a", days(1));
    drop(held.pop());
    // The slot belongs to the waiting caller, which has not noticed yet.
    assert!(fair.try_acquire("a").is_err());
    crowd.run();
    assert_eq!(crowd.permits()[0].0, waits);
}

#[test]
fn reserved_slot_is_not_given_to_waiting_callers() {
    let fair = fair(4, &clock()).build();
    drop(fair.try_acquire("b").unwrap());
    let _a = all_of(&fair, "a");
    let mut crowd = Crowd::default();
    crowd.join(&fair, "a", days(1));
    assert_eq!(fair.waiting(), 1);
    assert_eq!(all_of(&fair, "b").len(), 2);
}

#[test]
fn full_queue_of_a_tenant_rejects_at_once() {
    let fair = fair(1, &clock()).queue(2).build();
    let _held = fair.try_acquire("a").unwrap();
    let mut crowd = Crowd::default();
    for _ in 0..3 {
        crowd.join(&fair, "a", days(1));
    }
    let answers = crowd.answers();
    assert_eq!((answers.len(), answers[0].0), (1, 2));
    let refused = answers[0].1.as_ref().unwrap_err();
    assert_eq!((refused.reason(), refused.retry_after()), (RejectReason::QueueFull, seconds(1)));
    // Another tenant has a queue of its own.
    crowd.join(&fair, "b", days(1));
    assert_eq!((crowd.answers().len(), fair.waiting()), (0, 3));
}

#[test]
fn full_sum_of_queues_still_admits_one_waiting_caller_per_tenant() {
    let fair = fair(1, &clock()).total_queue(2).build();
    let _held = fair.try_acquire("a").unwrap();
    let mut crowd = Crowd::default();
    for tenant in ["a", "a", "a", "b", "b"] {
        crowd.join(&fair, tenant, days(1));
    }
    let full: Vec<_> =
        crowd.answers().into_iter().map(|(caller, answer)| (caller, answer.unwrap_err().reason())).collect();
    assert_eq!(full, [(2, RejectReason::QueueFull), (4, RejectReason::QueueFull)]);
    assert_eq!(fair.waiting(), 3);
}

#[test]
fn waiting_ends_exactly_at_the_deadline() {
    let clock = clock();
    let fair = fair(1, &clock).build();
    let _held = fair.try_acquire("a").unwrap();
    let mut crowd = Crowd::default();
    // Longer than idle tenants are kept, so that a sweep runs meanwhile.
    crowd.join(&fair, "a", seconds(25));
    for _ in 0..24 {
        crowd.advance(&clock, seconds(1));
    }
    crowd.advance(&clock, millis(999));
    assert!(crowd.answers().is_empty());
    crowd.advance(&clock, millis(1));
    let answers = crowd.answers();
    let refused = answers[0].1.as_ref().unwrap_err();
    assert_eq!((refused.reason(), refused.retry_after()), (RejectReason::TooLong, seconds(1)));
    assert_eq!((fair.waiting(), clock.sleepers()), (0, 0));
}

#[test]
fn waiting_caller_gets_the_reserve_of_an_absent_tenant() {
    let clock = clock();
    let fair = fair(2, &clock).idle_after(seconds(10)).build();
    drop(fair.try_acquire("gone").unwrap());
    let _held = fair.try_acquire("a").unwrap();
    let mut crowd = Crowd::default();
    clock.advance(seconds(4));
    let waits = crowd.join(&fair, "a", seconds(60));
    crowd.advance(&clock, seconds(6) - millis(1));
    assert!(crowd.permits().is_empty());
    crowd.advance(&clock, millis(1));
    assert_eq!(crowd.permits()[0].0, waits);
}

#[test]
fn dropped_call_leaves_the_queue() {
    let fair = fair(1, &clock()).queue(1).build();
    let held = fair.try_acquire("a").unwrap();
    let mut crowd = Crowd::default();
    let first = crowd.join(&fair, "a", days(1));
    crowd.leave(first);
    assert_eq!(fair.waiting(), 0);
    let second = crowd.join(&fair, "a", days(1));
    drop(held);
    crowd.run();
    assert_eq!(crowd.permits()[0].0, second);
}

#[test]
fn slot_of_a_dropped_call_goes_to_the_next() {
    let fair = fair(1, &clock()).build();
    let held = fair.try_acquire("a").unwrap();
    let mut crowd = Crowd::default();
    let (first, second) = (crowd.join(&fair, "a", days(1)), crowd.join(&fair, "b", days(1)));
    drop(held); // to a or b; neither is polled
    assert_eq!((fair.in_flight(), fair.waiting()), (1, 1));
    crowd.leave(first);
    crowd.run();
    assert_eq!(crowd.permits()[0].0, second);
    assert_eq!(fair.in_flight(), 0);
}

#[test]
fn larger_limit_serves_waiting_callers() {
    let fair = fair(1, &clock()).build();
    let _held = fair.try_acquire("a").unwrap();
    let mut crowd = Crowd::default();
    for _ in 0..3 {
        crowd.join(&fair, "a", days(1));
    }
    fair.set_limit(3);
    crowd.run();
    assert_eq!(crowd.permits().len(), 2);
}

#[test]
fn call_that_was_never_polled_has_no_effect() {
    let fair = fair(1, &clock()).build();
    drop(fair.acquire("a", days(1)));
    assert_eq!((fair.tenants(), fair.waiting()), (0, 0));
}

/// A waker that reads the slots when it is woken, and drops a waiting caller when it is dropped.
struct ReadingWaker {
    fair: FairConcurrency,
    companion: Mutex<Option<Acquire>>,
    in_flight_seen: AtomicU32,
}

impl Wake for ReadingWaker {
    fn wake(self: Arc<Self>) {
        self.in_flight_seen.store(self.fair.in_flight(), Ordering::SeqCst);
    }
}

/// A clock that keeps no wakers, and never wakes.
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
    }
}

impl Sleeper for StoppedClock {
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(pending())
    }
}

#[test]
fn wakers_run_without_a_lock() {
    let fair = FairConcurrency::builder(1).sleeper(StoppedClock).build();
    let waits = || {
        let fair = fair.clone();
        let mut acquire: Acquire = Box::pin(async move { fair.acquire("a", days(1)).await });
        assert!(acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        acquire
    };
    let alone = || Arc::new(ReadingWaker { fair: fair.clone(), companion: Mutex::default(), in_flight_seen: 0.into() });
    let with_companion = || {
        let nosy = alone();
        *nosy.companion.lock().unwrap() = Some(waits());
        Waker::from(nosy)
    };
    let held = fair.try_acquire("a").unwrap();
    let (mut first, mut second) = (waits(), waits());
    // Dropped because another takes its place.
    assert!(second.as_mut().poll(&mut Context::from_waker(&with_companion())).is_pending());
    assert_eq!(fair.waiting(), 3);
    let woken = alone();
    assert!(second.as_mut().poll(&mut Context::from_waker(&Arc::clone(&woken).into())).is_pending());
    assert_eq!(fair.waiting(), 2);
    // Dropped because no caller waits with it any more.
    assert!(first.as_mut().poll(&mut Context::from_waker(&with_companion())).is_pending());
    drop(first);
    assert_eq!(fair.waiting(), 1);
    drop(held);
    assert_eq!(woken.in_flight_seen.load(Ordering::SeqCst), 1, "it was woken, and has seen its own slot");
}

#[cfg(not(feature = "tokio"))]
#[test]
#[should_panic(expected = "a sleeper to wait with")]
fn acquire_without_a_sleeper_panics() {
    let fair = FairConcurrency::builder(1).build();
    assert!(fair.try_acquire("a").is_ok());
    let _ = block_on(fair.acquire("a", seconds(1)));
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn tokio_feature_provides_a_sleeper() {
    let fair = FairConcurrency::builder(1).build();
    let permit = fair.acquire("a", seconds(1)).await.unwrap();
    assert_eq!(fair.acquire("a", millis(5)).await.unwrap_err().reason(), RejectReason::TooLong);
    let waits = tokio::spawn({
        let fair = fair.clone();
        async move { fair.acquire("b", seconds(60)).await.is_ok() }
    });
    tokio::task::yield_now().await;
    drop(permit);
    assert!(waits.await.unwrap());
}

/// A clock that is set back by an hour with every reading, and on which every sleep is over at once.
#[derive(Clone, Default)]
struct BackwardsClock {
    readings: Arc<AtomicU32>,
    total_sleep: Arc<Mutex<Duration>>,
}

impl Clock for BackwardsClock {
    fn now(&self) -> Timestamp {
        let readings = self.readings.fetch_add(1, Ordering::SeqCst);
        Timestamp::from_millis(1_800_000_000_000).saturating_sub(seconds(3_600) * readings)
    }
}

impl Sleeper for BackwardsClock {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let mut slept = self.total_sleep.lock().unwrap();
        *slept += span;
        assert!(*slept <= seconds(60), "it waits for ever");
        Box::pin(async {})
    }
}

#[test]
fn clock_set_back_does_not_prolong_a_wait() {
    let clock = BackwardsClock::default();
    let fair = FairConcurrency::builder(1).sleeper(clock.clone()).idle_after(seconds(1)).build();
    let _held = fair.try_acquire("a").unwrap();
    let refused = block_on(fair.acquire("b", seconds(5))).unwrap_err();
    assert_eq!((refused.reason(), *clock.total_sleep.lock().unwrap()), (RejectReason::TooLong, seconds(5)));
}
