//! The share of each tenant, without waiting.

use std::sync::Arc;
use std::time::Duration;

use tidegate::concurrency::{Completion, FairConcurrency, RejectReason};
use tidegate::store::BoxFuture;
use tidegate::{Clock, ManualClock, Sleeper, Timestamp, millis, seconds};

use crate::crowd::{all_of, clock, fair};

#[test]
fn lone_tenant_may_use_the_whole_limit() {
    let fair = fair(5, &clock()).weight("gold", 4).build();
    assert_eq!(all_of(&fair, "free").len(), 5);
}

#[test]
fn reserve_of_a_present_tenant_is_not_lent() {
    let fair = fair(10, &clock()).weight("gold", 4).build();
    let _gold = fair.try_acquire("gold").unwrap();
    // 8 are gold's, of which it uses one.
    let free = all_of(&fair, "free");
    assert_eq!(free.len(), 2);
    assert_eq!(all_of(&fair, "gold").len(), 7);
}

#[test]
fn rest_of_rounding_may_be_borrowed() {
    let fair = fair(10, &clock()).build();
    for tenant in ["a", "b", "c"] {
        drop(fair.try_acquire(tenant).unwrap());
    }
    assert_eq!(fair.share("a").unwrap().guarantee, 3);
    assert_eq!(all_of(&fair, "a").len(), 4);
}

#[test]
fn borrower_gets_no_more_until_a_newcomer_has_its_part() {
    let fair = fair(4, &clock()).build();
    let mut old = all_of(&fair, "old");
    let refused = fair.try_acquire("new").unwrap_err();
    assert_eq!((refused.reason(), refused.is_shared(), refused.limit()), (RejectReason::Busy, true, 4));
    assert_eq!((fair.share("old").unwrap().in_flight, fair.share("new").unwrap().guarantee), (4, 2));
    let mut new = Vec::new();
    for _ in 0..2 {
        drop(old.pop());
        assert!(fair.try_acquire("old").is_err());
        new.push(fair.try_acquire("new").unwrap());
    }
    // Now each has its share, and only that holds it back.
    let refused = fair.try_acquire("new").unwrap_err();
    assert_eq!((refused.is_shared(), refused.limit()), (false, 2));
    drop(old.pop());
    assert!(fair.try_acquire("new").is_err());
    assert!(fair.try_acquire("old").is_ok());
}

#[test]
fn absent_tenant_leaves_its_part_to_others() {
    let clock = clock();
    let fair = fair(10, &clock).idle_after(seconds(10)).build();
    drop(fair.try_acquire("a").unwrap());
    let mut b = all_of(&fair, "b");
    assert_eq!(b.len(), 5);
    clock.advance(seconds(10) - millis(1));
    assert!(fair.try_acquire("b").is_err());
    clock.advance(millis(1));
    b.extend(all_of(&fair, "b"));
    assert_eq!((b.len(), fair.tenants(), fair.share("a")), (10, 1, None));
}

#[test]
fn tenant_stays_present_while_it_holds_or_asks() {
    let clock = clock();
    let fair = fair(2, &clock).idle_after(seconds(10)).build();
    let both = all_of(&fair, "holds");
    for _ in 0..5 {
        clock.advance(seconds(9));
        // It is rejected each time, and present all the time.
        assert!(fair.try_acquire("asks").is_err());
        assert_eq!(fair.tenants(), 2);
    }
    drop(both);
    assert!(fair.try_acquire("holds").is_ok());
    let asks = all_of(&fair, "asks");
    assert_eq!(asks.len(), 1);
}

#[test]
fn more_tenants_than_slots_only_borrow() {
    let fair = fair(2, &clock()).build();
    let a = fair.try_acquire("a").unwrap();
    let _b = fair.try_acquire("b").unwrap();
    let refused = fair.try_acquire("c").unwrap_err();
    assert_eq!(fair.share("c").unwrap().guarantee, 0);
    assert!(refused.is_shared(), "it has done nothing to deserve it");
    drop(a);
    assert!(fair.try_acquire("c").is_ok());
}

#[test]
fn tenants_beyond_the_bound_share_one_place() {
    let clock = clock();
    let fair = fair(12, &clock).weight("gold", 3).max_tenants(2).idle_after(seconds(10)).build();
    let _known = fair.try_acquire("known").unwrap();
    for made_up in 0..1_000_u64 {
        drop(fair.try_acquire(made_up));
    }
    assert_eq!(fair.tenants(), 3, "known, the first of the made up, and the others");
    let _gold = fair.try_acquire("gold").unwrap();
    assert_eq!(fair.tenants(), 4);
    assert_eq!((fair.share("gold").unwrap().guarantee, fair.share("known").unwrap().guarantee), (6, 2));
    // Any number of new names is one share, with the remainder of rounding.
    let flood: Vec<_> = (1..1_000_u64).filter_map(|made_up| fair.try_acquire(made_up).ok()).collect();
    assert_eq!((flood.len(), fair.share(7_u64).unwrap().in_flight), (2, 2));
    // Once there is room again, a name has a place of its own.
    clock.advance(seconds(10));
    drop(fair.try_acquire(7_u64).unwrap());
    assert_eq!(fair.share(7_u64).unwrap().in_flight, 0);
    drop(flood);
}

#[test]
fn max_tenants_zero_makes_one_tenant_of_all_unweighted_ones() {
    let fair = fair(4, &clock()).weight("gold", 1).max_tenants(0).build();
    drop(fair.try_acquire("gold").unwrap());
    let _x = fair.try_acquire("x").unwrap();
    let _y = fair.try_acquire("y").unwrap();
    assert!(fair.try_acquire("z").is_err());
    assert_eq!(fair.share("z").unwrap().in_flight, 2);
}

#[test]
fn smaller_limit_admits_nothing_until_fewer_are_in_flight() {
    let fair = fair(4, &clock()).build();
    let mut permits = all_of(&fair, "a");
    fair.set_limit(2);
    assert_eq!((fair.limit(), fair.in_flight()), (2, 4));
    for left in [3, 2] {
        permits.pop();
        assert_eq!(fair.in_flight(), left);
        assert!(fair.try_acquire("a").is_err());
    }
    permits.pop();
    assert!(fair.try_acquire("a").is_ok());
    fair.set_limit(0);
    assert_eq!(fair.limit(), 1, "0 counts as 1");
}

#[test]
fn retry_hint_is_the_recent_hold_time() {
    let clock = clock();
    let fair = fair(1, &clock).build();
    let permit = fair.try_acquire("a").unwrap();
    assert_eq!(fair.try_acquire("a").unwrap_err().retry_after(), seconds(1), "nothing is known yet");
    clock.advance(millis(300));
    permit.release(Completion::Success);
    let _permit = fair.try_acquire("a").unwrap();
    assert_eq!(fair.try_acquire("a").unwrap_err().retry_after(), millis(300));
}

#[test]
fn largest_numbers_are_exact() {
    let fair = fair(u32::MAX, &clock()).weight("a", u32::MAX).weight("b", u32::MAX - 1).build();
    let (_a, _b) = (fair.try_acquire("a").unwrap(), fair.try_acquire("b").unwrap());
    let guarantee = |tenant| u64::from(fair.share(tenant).unwrap().guarantee);
    assert_eq!((guarantee("a"), guarantee("b")), ((1 << 31) - 1, (1 << 31) - 1));
}

/// A clock whose references can be counted.
struct CountedClock(ManualClock, #[expect(dead_code, reason = "its references are counted")] Arc<()>);

impl Clock for CountedClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl Sleeper for CountedClock {
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(span)
    }
}

#[test]
fn dropped_limiter_frees_its_clock() {
    let counted = Arc::new(());
    let fair = FairConcurrency::builder(1).sleeper(CountedClock(clock(), Arc::clone(&counted))).build();
    let permit = fair.try_acquire("a").unwrap();
    drop(fair);
    assert_eq!(Arc::strong_count(&counted), 2, "a permit can still be given back");
    drop(permit);
    assert_eq!(Arc::strong_count(&counted), 1);
}

#[test]
fn clock_set_back_keeps_tenants_longer_and_breaks_nothing() {
    let clock = clock();
    let fair = fair(4, &clock).idle_after(seconds(10)).build();
    drop(fair.try_acquire("a").unwrap());
    clock.set(clock.now().saturating_sub(seconds(5)));
    drop(fair.try_acquire("b").unwrap());
    drop(fair.try_acquire("a").unwrap());
    clock.advance(seconds(10));
    assert_eq!((fair.share("a").is_some(), fair.share("b")), (true, None));
    clock.advance(seconds(5));
    assert_eq!(fair.tenants(), 0);
}
