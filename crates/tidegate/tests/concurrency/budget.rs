//! Budgets: holds are settled once, and open holds are bounded.

use tidegate::budget::{Budget, Hold, Settlement};
use tidegate::resilience::{Resilience, TimeoutStore};
use tidegate::{
    Clock, Limit, Limiter, ManualClock, MemoryStore, Quota, Reason, StoreError, StoreErrorKind, Timestamp,
    TokioSleeper, millis, minutes, seconds,
};
use tidegate_testkit::{FaultyStore, Random, block_on};

/// A budget on a clock of its own: `holds` open for 30 seconds.
fn budget(tokens: Quota, holds: u64) -> (Budget, Limiter, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let limiter = Limiter::builder()
        .store(MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build())
        .limit("tokens", tokens)
        .limit("holds", Quota::concurrency(holds, seconds(30)).unwrap())
        .build()
        .unwrap();
    (Budget::with_clock(&limiter, "tokens", "holds", clock.clone()), limiter, clock)
}

fn tokens() -> Quota {
    Quota::token_bucket(100, minutes(1)).unwrap()
}

fn left(limiter: &Limiter, limit: &str) -> u64 {
    limiter.check(limit, "alice").try_now().unwrap().remaining()
}

fn hold(budget: &Budget, estimate: u64) -> Hold {
    block_on(budget.hold("alice", estimate)).unwrap().hold().expect("a hold").clone()
}

fn settle(hold: &Hold, cost: u64) -> Settlement {
    block_on(hold.settle(cost)).unwrap()
}

#[test]
fn settlement_charges_the_real_cost() {
    for (cost, left_then) in [(40, 60), (0, 100), (10, 90), (39, 61)] {
        let (budget, limiter, _) = budget(tokens(), 5);
        let held = hold(&budget, 40);
        assert_eq!((left(&limiter, "tokens"), left(&limiter, "holds")), (60, 4));
        assert_eq!(settle(&held, cost), Settlement::Full);
        assert_eq!((left(&limiter, "tokens"), left(&limiter, "holds")), (left_then, 5), "cost {cost}");
    }
}

#[test]
fn cost_above_the_estimate_is_debt() {
    let (budget, limiter, clock) = budget(tokens(), 5);
    let held = hold(&budget, 10);
    // More than twice the capacity, in several charges.
    assert_eq!(settle(&held, 250), Settlement::Full);
    let denied = limiter.limit("tokens", "alice").try_now().unwrap();
    assert_eq!(denied.retry_after(), Some(millis(151 * 600)));
    clock.advance(millis(151 * 600));
    assert_eq!(left(&limiter, "tokens"), 1);
}

#[test]
fn debt_stops_at_the_maximum() {
    let (budget, limiter, _) = budget(tokens().max_debt(50).unwrap(), 5);
    let held = hold(&budget, 10);
    assert_eq!(
        settle(&held, 10 + 100 + 60),
        Settlement::Partial(60),
        "90 are left and 50 may be owed: 140 in pieces of 100"
    );
    assert_eq!(left(&limiter, "tokens"), 0);
}

#[test]
fn second_settlement_and_cancellation_change_nothing() {
    let (budget, limiter, _) = budget(tokens(), 5);
    let held = hold(&budget, 40);
    let other = held.clone();
    assert_eq!(settle(&held, 30), Settlement::Full);
    for _ in 0..3 {
        assert_eq!(settle(&other, 0), Settlement::Unchanged);
        assert_eq!(settle(&held, 1_000), Settlement::Unchanged);
        assert_eq!(block_on(other.cancel()).unwrap(), Settlement::Unchanged);
    }
    assert_eq!((left(&limiter, "tokens"), left(&limiter, "holds")), (70, 5));
}

#[test]
fn expired_hold_costs_its_estimate() {
    let (budget, limiter, clock) = budget(Quota::fixed_window(100, minutes(60)).unwrap(), 1);
    let held = hold(&budget, 40);
    assert_eq!(block_on(budget.hold("alice", 1)).unwrap().decision().reason(), Some(Reason::Concurrency));
    clock.advance(seconds(30) - millis(1));
    assert_eq!(left(&limiter, "holds"), 0, "not before its time");
    clock.advance(millis(1));
    assert_eq!(left(&limiter, "holds"), 1);
    assert_eq!(settle(&held, 0), Settlement::Unchanged);
    assert_eq!(left(&limiter, "tokens"), 60);
}

#[test]
fn denied_hold_leaves_nothing_open() {
    let (budget, limiter, _) = budget(tokens(), 5);
    let held = block_on(budget.hold("alice", 101)).unwrap();
    assert_eq!((held.decision().reason(), held.hold().is_none()), (Some(Reason::CostExceedsCapacity), true));
    let first = hold(&budget, 60);
    let held = block_on(budget.hold("alice", 41)).unwrap();
    assert_eq!((held.decision().reason(), held.hold().is_none()), (Some(Reason::Rate), true));
    assert!(block_on(budget.hold("alice", 0)).unwrap_err().is_misuse());
    assert_eq!((left(&limiter, "tokens"), left(&limiter, "holds")), (40, 4));
    assert_eq!(block_on(first.cancel()).unwrap(), Settlement::Full);
    assert_eq!((left(&limiter, "tokens"), left(&limiter, "holds")), (100, 5));
}

/// A refund after the bucket has refilled would credit the units twice.
#[test]
fn replenished_units_are_not_refunded() {
    let (budget, limiter, clock) = budget(Quota::token_bucket(100, seconds(10)).unwrap(), 5);
    let held = hold(&budget, 100);
    clock.advance(seconds(10));
    assert!(limiter.limit("tokens", "alice").cost(100).try_now().unwrap().allowed());
    assert_eq!(settle(&held, 0), Settlement::Full);
    assert_eq!(left(&limiter, "tokens"), 0);
}

/// A busy budget gets the units of a hold back after any time.
#[test]
fn missing_units_are_refunded_however_long_the_work_took() {
    let (budget, limiter, clock) = budget(Quota::token_bucket(1_000, minutes(10)).unwrap(), 5);
    let others = limiter.limit("tokens", "alice").cost(600).try_now().unwrap();
    assert!(others.allowed());
    let held = hold(&budget, 300);
    clock.advance(seconds(6)); // brings 10
    assert_eq!(left(&limiter, "tokens"), 110);
    assert_eq!(settle(&held, 50), Settlement::Full);
    assert_eq!(left(&limiter, "tokens"), 360);
}

#[test]
fn renewed_hold_lasts_longer() {
    let (budget, limiter, clock) = budget(Quota::fixed_window(100, minutes(60)).unwrap(), 1);
    let held = hold(&budget, 40);
    for _ in 0..5 {
        clock.advance(seconds(20));
        assert!(block_on(held.renew()).unwrap().allowed());
    }
    assert_eq!(settle(&held, 10), Settlement::Full);
    assert_eq!(left(&limiter, "tokens"), 90);
    assert!(!block_on(held.renew()).unwrap().allowed());
}

#[test]
fn cost_that_cannot_be_charged_ends_in_a_partial_settlement() {
    let (budget, ..) = budget(tokens(), 5);
    let held = hold(&budget, 1);
    let Settlement::Partial(rest) = settle(&held, u64::MAX) else { panic!("not all of it") };
    assert!(rest > u64::MAX - 100_000);
}

#[test]
fn sharded_limit_is_charged_shard_by_shard() {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let limiter = Limiter::builder()
        .store(MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build())
        .limit("tokens", Limit::new(tokens()).shards(4).unwrap())
        .limit("holds", Quota::concurrency(5, seconds(30)).unwrap())
        .build()
        .unwrap();
    let budget = Budget::with_clock(&limiter, "tokens", "holds", clock);
    let held = hold(&budget, 5);
    assert_eq!(settle(&held, 95), Settlement::Full);
    let denied = limiter.limit("tokens", "alice").try_now().unwrap();
    assert!(denied.retry_after().unwrap() > seconds(60), "70 are owed to a part of 25 a minute");
}

/// A shard is replenished more slowly than the whole limit.
#[test]
fn refund_of_a_sharded_limit_counts_what_its_shard_gained() {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let limiter = Limiter::builder()
        .store(MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build())
        .limit("tokens", Limit::new(tokens()).shards(4).unwrap())
        .limit("holds", Quota::concurrency(5, seconds(30)).unwrap())
        .build()
        .unwrap();
    let budget = Budget::with_clock(&limiter, "tokens", "holds", clock.clone());
    let held = hold(&budget, 20);
    clock.advance(seconds(12)); // brings 5 of the 20
    assert_eq!(settle(&held, 5), Settlement::Full);
    assert_eq!(left(&limiter, "tokens"), 25);
    let held = hold(&budget, 20);
    clock.advance(seconds(12));
    assert_eq!(settle(&held, 8), Settlement::Full);
    assert_eq!(left(&limiter, "tokens"), 22);
}

/// An admission without the store settles nothing. It is an error, and a retry is possible.
#[test]
fn failing_store_settles_nothing() {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let store = FaultyStore::new(MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build());
    let faults = store.faults();
    let limiter = Limiter::builder()
        .store(Resilience::new(clock.clone()).breaker(1_000, millis(1)).build(store))
        .limit("tokens", tokens())
        .limit("holds", Quota::concurrency(5, seconds(30)).unwrap())
        .build()
        .unwrap();
    let budget = Budget::with_clock(&limiter, "tokens", "holds", clock);
    let held = hold(&budget, 40);
    faults.fail(StoreError::new(StoreErrorKind::Unavailable, "unplugged"));
    assert!(block_on(held.settle(10)).is_err());
    let without = block_on(budget.hold("alice", 40)).unwrap();
    assert!(without.decision().allowed() && without.hold().is_none(), "the limits are open");
    faults.pass();
    assert_eq!(settle(&held, 10), Settlement::Full);
    assert_eq!(block_on(async { limiter.check("tokens", "alice").await }).unwrap().remaining(), 90);
}

/// A decision whose answer arrives too late holds no lease.
#[tokio::test(start_paused = true)]
async fn late_answer_leaves_no_hold_behind() {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let store = FaultyStore::new(MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build());
    let faults = store.faults();
    let limiter = Limiter::builder()
        .bare_store(TimeoutStore::new(store, millis(50), TokioSleeper))
        .limit("tokens", tokens())
        .limit("holds", Quota::concurrency(5, seconds(30)).unwrap())
        .build()
        .unwrap();
    let budget = Budget::with_clock(&limiter, "tokens", "holds", clock);
    faults.delay_responses();
    assert!(budget.hold("alice", 40).await.is_err());
    faults.pass();
    assert_eq!(limiter.check("holds", "alice").await.unwrap().remaining(), 5);
}

/// The stated bound: the settled cost is within the units of the bucket, plus the excess of open holds over their
/// estimates.
#[test]
fn cost_beyond_the_quota_is_bounded_by_open_holds() {
    const HOLDS: u64 = 4;
    const MAX_COST: u64 = 60;
    let mut beyond = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (budget, _, clock) = budget(tokens(), HOLDS);
        let begun = clock.now();
        let (mut open, mut settled) = (Vec::<(Hold, u64)>::new(), 0);
        for _ in 0..200 {
            match random.below(4) {
                0 | 1 => {
                    let estimate = random.between(1, 30);
                    if let Some(hold) = block_on(budget.hold("alice", estimate)).unwrap().hold() {
                        open.push((hold.clone(), random.between(0, MAX_COST)));
                    }
                }
                2 if !open.is_empty() => {
                    let (hold, cost) = open.swap_remove(random.below(open.len() as u64) as usize);
                    // Work that ended before its settlement costs its estimate.
                    settled += if settle(&hold, cost) == Settlement::Unchanged { hold.estimate() } else { cost };
                }
                _ => clock.advance(millis(random.between(0, 5_000))),
            }
            let given = 100 + clock.now().since(begun).as_millis() as u64 * 100 / 60_000 + 1;
            assert!(settled <= given + HOLDS * (MAX_COST - 1), "seed {seed}: {settled} of {given}");
            beyond = beyond.max(settled.saturating_sub(given));
        }
    }
    assert!(beyond > MAX_COST, "the bound is put to the test: {beyond} beyond");
}
