//! Costs that are known only afterwards: held, settled once, bounded.

use tidegate::budget::{Budget, Hold, Settled};
use tidegate::resilience::{Resilience, Timeout};
use tidegate::{
    Clock, Limit, Limiter, ManualClock, MemoryStore, Quota, Reason, ShardBy, StoreError, StoreErrorKind, Timestamp,
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
    (Budget::on(&limiter, "tokens", "holds", clock.clone()), limiter, clock)
}

fn tokens() -> Quota {
    Quota::token_bucket(100, minutes(1)).unwrap()
}

fn left(limiter: &Limiter, limit: &str) -> u64 {
    limiter.check(limit, "alice").now().unwrap().unwrap().remaining()
}

fn hold(budget: &Budget, estimate: u64) -> Hold {
    block_on(budget.hold("alice", estimate)).unwrap().hold().expect("a hold").clone()
}

fn settle(hold: &Hold, cost: u64) -> Settled {
    block_on(hold.settle(cost)).unwrap()
}

#[test]
fn what_is_charged_in_the_end_is_what_it_cost() {
    for (cost, left_then) in [(40, 60), (0, 100), (10, 90), (39, 61)] {
        let (budget, limiter, _) = budget(tokens(), 5);
        let held = hold(&budget, 40);
        assert_eq!((left(&limiter, "tokens"), left(&limiter, "holds")), (60, 4));
        assert_eq!(settle(&held, cost), Settled::Whole);
        assert_eq!((left(&limiter, "tokens"), left(&limiter, "holds")), (left_then, 5), "cost {cost}");
    }
}

#[test]
fn a_spread_limit_is_refused_before_anything_is_taken() {
    let limiter = Limiter::builder()
        .limit("tokens", Limit::new(tokens()).shards(4).unwrap().shard_by(ShardBy::Spread))
        .limit("holds", Quota::concurrency(5, seconds(30)).unwrap())
        .build()
        .unwrap();
    let error = block_on(Budget::new(&limiter, "tokens", "holds").hold("alice", 10)).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("spread"), "{error}");
    assert_eq!(left(&limiter, "holds"), 5);
}

#[test]
fn what_it_cost_more_is_debt_that_later_requests_wait_for() {
    let (budget, limiter, clock) = budget(tokens(), 5);
    let held = hold(&budget, 10);
    // More than twice the capacity, in pieces.
    assert_eq!(settle(&held, 250), Settled::Whole);
    let denied = limiter.limit("tokens", "alice").now().unwrap().unwrap();
    assert_eq!(denied.retry_after(), Some(millis(151 * 600)));
    clock.advance(millis(151 * 600));
    assert_eq!(left(&limiter, "tokens"), 1);
}

#[test]
fn debt_stops_where_the_quota_says() {
    let (budget, limiter, _) = budget(tokens().max_debt(50).unwrap(), 5);
    let held = hold(&budget, 10);
    assert_eq!(
        settle(&held, 10 + 100 + 60),
        Settled::Short(60),
        "90 are left and 50 may be owed: 140 in pieces of 100"
    );
    assert_eq!(left(&limiter, "tokens"), 0);
}

#[test]
fn to_settle_twice_changes_nothing_and_neither_does_to_cancel_afterwards() {
    let (budget, limiter, _) = budget(tokens(), 5);
    let held = hold(&budget, 40);
    let other = held.clone();
    assert_eq!(settle(&held, 30), Settled::Whole);
    for _ in 0..3 {
        assert_eq!(settle(&other, 0), Settled::Unchanged);
        assert_eq!(settle(&held, 1_000), Settled::Unchanged);
        assert_eq!(block_on(other.cancel()).unwrap(), Settled::Unchanged);
    }
    assert_eq!((left(&limiter, "tokens"), left(&limiter, "holds")), (70, 5));
}

#[test]
fn a_hold_ends_after_its_time_and_the_estimate_stands() {
    let (budget, limiter, clock) = budget(Quota::fixed_window(100, minutes(60)).unwrap(), 1);
    let held = hold(&budget, 40);
    assert_eq!(block_on(budget.hold("alice", 1)).unwrap().decision().reason(), Some(Reason::Concurrency));
    clock.advance(seconds(30) - millis(1));
    assert_eq!(left(&limiter, "holds"), 0, "not before its time");
    clock.advance(millis(1));
    assert_eq!(left(&limiter, "holds"), 1);
    assert_eq!(settle(&held, 0), Settled::Unchanged);
    assert_eq!(left(&limiter, "tokens"), 60);
}

#[test]
fn what_is_denied_leaves_nothing_open() {
    let (budget, limiter, _) = budget(tokens(), 5);
    let held = block_on(budget.hold("alice", 101)).unwrap();
    assert_eq!((held.decision().reason(), held.hold().is_none()), (Some(Reason::CostExceedsCapacity), true));
    let first = hold(&budget, 60);
    let held = block_on(budget.hold("alice", 41)).unwrap();
    assert_eq!((held.decision().reason(), held.hold().is_none()), (Some(Reason::Rate), true));
    assert!(block_on(budget.hold("alice", 0)).unwrap_err().is_misuse());
    assert_eq!((left(&limiter, "tokens"), left(&limiter, "holds")), (40, 4));
    assert_eq!(block_on(first.cancel()).unwrap(), Settled::Whole);
    assert_eq!((left(&limiter, "tokens"), left(&limiter, "holds")), (100, 5));
}

/// An estimate that is given back after the bucket has refilled would be there twice.
#[test]
fn what_has_come_back_by_itself_is_not_given_back_again() {
    let (budget, limiter, clock) = budget(Quota::token_bucket(100, seconds(10)).unwrap(), 5);
    let held = hold(&budget, 100);
    clock.advance(seconds(10));
    assert!(limiter.limit("tokens", "alice").cost(100).now().unwrap().unwrap().allowed());
    assert_eq!(settle(&held, 0), Settled::Whole);
    assert_eq!(left(&limiter, "tokens"), 0);
}

/// A budget that is in use is missing what was held, however long the work takes.
#[test]
fn what_is_still_missing_is_given_back_however_long_it_took() {
    let (budget, limiter, clock) = budget(Quota::token_bucket(1_000, minutes(10)).unwrap(), 5);
    let others = limiter.limit("tokens", "alice").cost(600).now().unwrap().unwrap();
    assert!(others.allowed());
    let held = hold(&budget, 300);
    clock.advance(seconds(6)); // brings 10
    assert_eq!(left(&limiter, "tokens"), 110);
    assert_eq!(settle(&held, 50), Settled::Whole);
    assert_eq!(left(&limiter, "tokens"), 360);
}

#[test]
fn a_hold_that_is_renewed_lasts_longer() {
    let (budget, limiter, clock) = budget(Quota::fixed_window(100, minutes(60)).unwrap(), 1);
    let held = hold(&budget, 40);
    for _ in 0..5 {
        clock.advance(seconds(20));
        assert!(block_on(held.renew()).unwrap().allowed());
    }
    assert_eq!(settle(&held, 10), Settled::Whole);
    assert_eq!(left(&limiter, "tokens"), 90);
    assert!(!block_on(held.renew()).unwrap().allowed());
}

#[test]
fn what_can_never_be_charged_is_said_and_does_not_take_for_ever() {
    let (budget, ..) = budget(tokens(), 5);
    let held = hold(&budget, 1);
    let Settled::Short(rest) = settle(&held, u64::MAX) else { panic!("not all of it") };
    assert!(rest > u64::MAX - 100_000);
}

#[test]
fn a_limit_in_shards_is_charged_by_the_part() {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let limiter = Limiter::builder()
        .store(MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build())
        .limit("tokens", Limit::new(tokens()).shards(4).unwrap())
        .limit("holds", Quota::concurrency(5, seconds(30)).unwrap())
        .build()
        .unwrap();
    let budget = Budget::on(&limiter, "tokens", "holds", clock);
    let held = hold(&budget, 5);
    assert_eq!(settle(&held, 95), Settled::Whole);
    let denied = limiter.limit("tokens", "alice").now().unwrap().unwrap();
    assert!(denied.retry_after().unwrap() > seconds(60), "70 are owed to a part of 25 a minute");
}

/// To be admitted without a store is not to be settled: it is an error, after which it can be tried again.
#[test]
fn a_broken_store_settles_nothing() {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let store = FaultyStore::new(MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build());
    let faults = store.faults();
    let limiter = Limiter::builder()
        .store(Resilience::new(clock.clone()).breaker(1_000, millis(1)).build(store))
        .limit("tokens", tokens())
        .limit("holds", Quota::concurrency(5, seconds(30)).unwrap())
        .build()
        .unwrap();
    let budget = Budget::on(&limiter, "tokens", "holds", clock);
    let held = hold(&budget, 40);
    faults.fail(StoreError::new(StoreErrorKind::Unavailable, "unplugged"));
    assert!(block_on(held.settle(10)).is_err());
    let without = block_on(budget.hold("alice", 40)).unwrap();
    assert!(without.decision().allowed() && without.hold().is_none(), "the limits are open");
    faults.pass();
    assert_eq!(settle(&held, 10), Settled::Whole);
    assert_eq!(block_on(async { limiter.check("tokens", "alice").await }).unwrap().remaining(), 90);
}

/// What was decided, and not heard of in time, holds no place.
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_too_late_leaves_no_hold_behind() {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let store = FaultyStore::new(MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build());
    let faults = store.faults();
    let limiter = Limiter::builder()
        .store(Timeout::new(store, millis(50), TokioSleeper))
        .limit("tokens", tokens())
        .limit("holds", Quota::concurrency(5, seconds(30)).unwrap())
        .build()
        .unwrap();
    let budget = Budget::on(&limiter, "tokens", "holds", clock);
    faults.answer_late();
    assert!(budget.hold("alice", 40).await.is_err());
    faults.pass();
    assert_eq!(limiter.check("holds", "alice").await.unwrap().remaining(), 5);
}

/// The bound that is stated: whatever is settled was admitted by what the bucket gave, but for what open holds cost more than
/// was held.
#[test]
fn what_is_spent_beyond_the_quota_is_bounded_by_the_holds_that_are_open() {
    const HOLDS: u64 = 4;
    const MOST: u64 = 60;
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
                        open.push((hold.clone(), random.between(0, MOST)));
                    }
                }
                2 if !open.is_empty() => {
                    let (hold, cost) = open.swap_remove(random.below(open.len() as u64) as usize);
                    // What ended before it was settled cost its estimate, as far as anybody knows.
                    settled += if settle(&hold, cost) == Settled::Unchanged { hold.estimate() } else { cost };
                }
                _ => clock.advance(millis(random.between(0, 5_000))),
            }
            let given = 100 + clock.now().since(begun).as_millis() as u64 * 100 / 60_000 + 1;
            assert!(settled <= given + HOLDS * (MOST - 1), "seed {seed}: {settled} of {given}");
            beyond = beyond.max(settled.saturating_sub(given));
        }
    }
    assert!(beyond > MOST, "the bound is put to the test: {beyond} beyond");
}
