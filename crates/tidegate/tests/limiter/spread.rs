//! Every key's own budget, cut into parts that a hot key is spread over.

use std::sync::Arc;
use std::thread;

use tidegate::{
    Cost, Error, Key, Limit, Limiter, ManualClock, MemoryStore, OnStoreError, Op, Quota, Reason, Request, Scope,
    ShardBy, Store, millis, minutes, seconds,
};
use tidegate_testkit::{Random, block_on};

use crate::support::{ask, bucket, builder, clock, left, memory, refused, window};

fn spread(quota: Quota, shards: u32) -> Limit {
    Limit::new(quota).shards(shards).unwrap().shard_by(ShardBy::Spread)
}

fn hot(clock: &ManualClock, quota: Quota, shards: u32, seed: u64) -> Limiter {
    builder(clock).limit("hot", spread(quota, shards)).seed(seed).build().unwrap()
}

/// Asks until it was denied so often in a row that no part can have anything left.
fn drain(limiter: &Limiter, key: &str) -> u64 {
    let (mut admitted, mut denied) = (0, 0);
    while denied < 400 {
        match ask(limiter.limit("hot", key)).allowed() {
            true => (admitted, denied) = (admitted + 1, 0),
            false => denied += 1,
        }
    }
    admitted
}

/// A limiter whose parts can be looked into.
struct Open {
    limiter: Limiter,
    store: Arc<MemoryStore>,
    parts: Vec<Quota>,
}

impl Open {
    fn new(quota: Quota, shards: u32) -> Self {
        let store = Arc::new(memory(&clock()));
        let limiter = Limiter::builder().limit("hot", spread(quota, shards)).store(store.clone()).build().unwrap();
        Open { limiter, store, parts: quota.split(shards).unwrap() }
    }

    fn apply(&self, key: &str, part: u32, op: Op) -> u64 {
        let (scope, key, quota) = (Scope::new("", "hot"), Key::from(key).with_shard(part), &self.parts[part as usize]);
        let request = Request { scope: &scope, key: &key, quota, op, on_store_error: OnStoreError::Open };
        block_on(self.store.apply(&request)).unwrap().remaining()
    }

    /// What each part has left.
    fn left(&self, key: &str) -> Vec<u64> {
        (0..self.parts.len() as u32).map(|part| self.apply(key, part, Op::Check(Cost::ONE))).collect()
    }

    fn take(&self, key: &str, part: u32, cost: u64) {
        self.apply(key, part, Op::Limit(Cost::new(cost).unwrap()));
    }
}

#[test]
fn a_hot_key_reaches_its_whole_capacity_and_never_more() {
    for (whole, shards) in [(10, 3), (2, 2), (100, 7), (64, 64), (1_000, 16), (5, 1)] {
        for seed in 0..5 {
            let clock = clock();
            let limiter = hot(&clock, window(whole), shards, seed);
            assert_eq!(drain(&limiter, "k"), whole, "{whole} over {shards}");
            assert_eq!(drain(&limiter, "l"), whole, "every key has its own budget");
            clock.advance(minutes(1));
            assert_eq!(drain(&limiter, "k"), whole, "{whole} over {shards}, in the next window");
        }
    }
}

#[test]
fn over_time_a_hot_key_has_its_rate_and_never_more() {
    let clock = clock();
    let quota = Quota::token_bucket(100, seconds(1)).unwrap().capacity(30).unwrap();
    let limiter = hot(&clock, quota, 4, 1);
    let mut random = Random::new(1);
    let (mut had, mut passed) = (0, 0);
    for _ in 0..20_000 {
        let span = random.below(4);
        clock.advance(millis(span));
        passed += span;
        had += u64::from(ask(limiter.limit("hot", "k")).allowed());
        had += u64::from(ask(limiter.limit("hot", "k")).allowed());
        assert!(had <= 30 + passed / 10, "{had} in {passed} ms");
    }
    assert!(had * 100 > (30 + passed / 10) * 95, "{had} in {passed} ms");
}

#[test]
fn threads_together_get_the_whole_and_never_more() {
    let clock = clock();
    let limiter = hot(&clock, window(1_000), 8, 9);
    let admitted: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| drain(&limiter, "k"))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 1_000);
}

#[test]
fn decisions_show_the_capacity_of_the_whole() {
    let clock = clock();
    let limiter = hot(&clock, window(10), 3, 0);
    let decisions = [
        ask(limiter.limit("hot", "k")),
        limiter.limit("hot", "k").now().unwrap().unwrap(),
        ask(limiter.check("hot", "k")),
        ask(limiter.refund("hot", "k")),
        ask(limiter.reset("hot", "k")),
        ask(limiter.acquire("hot", "k", millis(0))),
    ];
    assert!(decisions.iter().all(|decision| decision.allowed() && decision.limit() == 10), "{decisions:?}");
}

#[test]
fn check_sums_what_the_parts_have() {
    let open = Open::new(bucket(10), 3);
    let whole = ask(open.limiter.check("hot", "k"));
    assert_eq!((whole.remaining(), whole.next_after(), whole.reset_after()), (10, None, millis(0)));
    open.take("k", 0, 3);
    open.take("k", 2, 1);
    let some = ask(open.limiter.check("hot", "k"));
    assert_eq!((some.allowed(), some.remaining()), (true, 6));
    // The part that comes back first is the one of four a minute; the one that is new last, too.
    assert_eq!((some.next_after(), some.reset_after()), (Some(seconds(15)), seconds(45)));
    // Three are left in one part only, and four in none.
    assert!(ask(open.limiter.check("hot", "k").cost(3)).allowed());
    open.take("k", 1, 3);
    open.take("k", 2, 2);
    open.take("k", 0, 1);
    let none = ask(open.limiter.check("hot", "k"));
    assert_eq!((none.allowed(), none.remaining(), none.reason()), (false, 0, Some(Reason::Rate)));
    // The first of the parts to come back says when.
    assert_eq!(none.retry_after(), Some(seconds(15)));
    assert_eq!(open.left("k"), [0, 0, 0]);
}

#[test]
fn looking_takes_nothing() {
    let open = Open::new(window(10), 3);
    for _ in 0..20 {
        let _ = ask(open.limiter.check("hot", "k").cost(2));
    }
    assert_eq!(open.left("k"), [4, 3, 3]);
}

#[test]
fn a_limit_takes_from_one_part_only() {
    let open = Open::new(window(30), 3);
    let _ = ask(open.limiter.limit("hot", "k").cost(7));
    let mut left = open.left("k");
    left.sort_unstable();
    assert_eq!(left, [3, 10, 10]);
}

#[test]
fn the_fuller_of_two_parts_is_asked() {
    // With two parts both are looked at every time, so they are never further apart than one request.
    let open = Open::new(window(40), 2);
    for _ in 0..20 {
        let _ = ask(open.limiter.limit("hot", "k").cost(2));
        let left = open.left("k");
        assert!(left[0].abs_diff(left[1]) <= 2, "{left:?}");
    }
    assert_eq!(open.left("k"), [0, 0]);
}

#[test]
fn reset_clears_every_part() {
    let open = Open::new(window(10), 3);
    assert_eq!(drain(&open.limiter, "k"), 10);
    let _ = ask(open.limiter.limit("hot", "l"));
    assert_eq!(ask(open.limiter.reset("hot", "k")).remaining(), 10);
    assert_eq!(open.left("k"), [4, 3, 3]);
    assert_eq!(left(&open.limiter, "hot", "l"), 9, "another key is another budget");
    assert_eq!(drain(&open.limiter, "k"), 10);
}

#[test]
fn a_refund_goes_to_the_emptiest_part() {
    let open = Open::new(window(30), 3);
    for (taken, refund, after) in [([1, 7, 3], 5, [9, 8, 7]), ([2, 1, 9], 100, [8, 9, 10]), ([10, 3, 3], 1, [1, 7, 7])]
    {
        let _ = ask(open.limiter.reset("hot", "k"));
        for (part, cost) in taken.into_iter().enumerate() {
            open.take("k", part as u32, cost);
        }
        let _ = ask(open.limiter.refund("hot", "k").cost(refund));
        assert_eq!(open.left("k"), after);
    }
}

#[test]
fn what_is_taken_and_given_back_one_by_one_is_whole_again() {
    for seed in 0..10 {
        let clock = clock();
        let limiter = hot(&clock, window(10), 3, seed);
        for _ in 0..50 {
            let taken = drain(&limiter, "k");
            assert_eq!(taken, 10);
            for given in 1..=taken {
                let _ = ask(limiter.refund("hot", "k"));
                assert_eq!(left(&limiter, "hot", "k"), given);
            }
        }
    }
}

#[test]
fn a_reservation_is_refused_and_takes_nothing() {
    let clock = clock();
    let limiter = hot(&clock, window(10), 3, 0);
    let error = refused(limiter.reserve("hot", "k"));
    assert!(matches!(&error, Error::Unsupported(why) if why.limit == "hot"), "{error:?}");
    assert!(error.is_misuse() && !error.is_retryable());
    assert_eq!(left(&limiter, "hot", "k"), 10);
    // In one part there is nothing to spread.
    assert!(ask(hot(&clock, window(10), 1, 0).reserve("hot", "k").cost(3)).allowed());
}

#[test]
fn only_a_limit_is_answered_without_waiting() {
    let clock = clock();
    let limiter = hot(&clock, window(10), 3, 0);
    assert!(limiter.limit("hot", "k").now().unwrap().unwrap().allowed());
    for call in [limiter.check("hot", "k"), limiter.refund("hot", "k"), limiter.reset("hot", "k")] {
        assert!(call.now().is_none());
    }
    assert_eq!(left(&limiter, "hot", "k"), 9);
}

#[test]
fn the_same_seed_makes_the_same_run() {
    let run = |seed: u64| {
        let limiter = hot(&clock(), window(60), 8, seed);
        (0..80).map(|_| ask(limiter.limit("hot", "k"))).collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert_eq!(run(u64::MAX), run(u64::MAX));
    let different = (0..20).filter(|seed| run(*seed) != run(seed + 1)).count();
    assert!(different > 15, "{different} of 20");
}

#[test]
fn normalised_and_denied_keys_are_so_when_spread() {
    let limit = spread(window(10), 3).normalize(tidegate::Normalize::Lowercase).deny(["mallory"]).unwrap();
    let limiter = builder(&clock()).limit("hot", limit).build().unwrap();
    let _ = ask(limiter.limit("hot", "Bob"));
    assert_eq!(left(&limiter, "hot", "BOB"), 9);
    let denied = ask(limiter.limit("hot", "Mallory"));
    assert_eq!((denied.reason(), denied.limit(), denied.retry_after()), (Some(Reason::Deny), 10, None));
}

#[test]
fn a_key_that_looks_like_a_part_is_not_one() {
    let open = Open::new(window(9), 3);
    assert_eq!(drain(&open.limiter, "k"), 9);
    for part in 0..3 {
        let text = Key::from("k").with_shard(part).to_text().into_owned();
        assert_eq!(left(&open.limiter, "hot", text.as_str()), 9);
        assert_eq!(left(&open.limiter, "hot", Key::from_parts(text.split('|'))), 9);
        assert_eq!(left(&open.limiter, "hot", ("k", part)), 9);
    }
    // Nor do keys of several parts, the global one and the empty one meet.
    for key in [Key::GLOBAL, Key::from(""), Key::from(("k", "")), Key::from(("", "k"))] {
        assert_eq!(left(&open.limiter, "hot", &key), 9, "{key:?}");
        let _ = ask(open.limiter.limit("hot", &key));
    }
}

#[test]
fn a_cost_beyond_every_part_can_never_be_had() {
    let clock = clock();
    let limiter = hot(&clock, window(12), 3, 0);
    let dear = ask(limiter.limit("hot", "k").cost(5));
    assert_eq!((dear.allowed(), dear.reason(), dear.retry_after()), (false, Some(Reason::CostExceedsCapacity), None));
    assert_eq!(left(&limiter, "hot", "k"), 12);
}
