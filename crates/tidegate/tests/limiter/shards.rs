//! Sharded limits: one quota, split into shards that keys are assigned to.

use std::sync::Arc;

use tidegate::store::{Op, Request, Scope};
use tidegate::{
    Cost, Key, Limit, Limiter, MemoryStore, Normalize, OnStoreError, Quota, Reason, Store, Timestamp, millis, minutes,
    seconds,
};
use tidegate_testkit::{Random, block_on};

use crate::support::{bucket, builder, clock, decide, left, memory, window};

/// Returns which of eight shards of `limit` a key is assigned to.
fn shard_of(prefix: &str, name: &str, limit: Limit, key: Key<'_>) -> u32 {
    let quota = *limit.quota();
    let store: Arc<MemoryStore> = Arc::new(memory(&clock()));
    let limiter = Limiter::builder().limit(name, limit).prefix(prefix).store(store.clone()).build().unwrap();
    assert!(decide(limiter.limit(name, &key)).allowed());
    let (scope, parts) = (Scope::new(prefix, name), quota.split(8).unwrap());
    let is_used = |part: &u32| {
        let (key, quota, op) = (Key::shard(*part), &parts[*part as usize], Op::Check(Cost::ONE));
        let request = Request { scope: &scope, key: &key, quota, op, on_store_error: OnStoreError::Open };
        block_on(store.apply(&request)).unwrap().remaining() < u64::from(quota.parts().capacity)
    };
    let used: Vec<u32> = (0..8).filter(is_used).collect();
    let [part] = used.as_slice() else { panic!("{key:?} used {used:?}") };
    *part
}

fn eight_shards() -> Limit {
    Limit::new(window(80)).shards(8).unwrap()
}

#[test]
fn random_shards_add_up_to_the_quota() {
    let mut random = Random::new(11);
    for _ in 0..20_000 {
        let rate = random.of_bits(1, 32).max(1);
        let capacity = random.of_bits(1, 32).max(1);
        let debt = random.of_bits(1, 32);
        let shards = random.of_bits(1, 8) as u32;
        let quota = Quota::token_bucket(rate, seconds(1)).unwrap().capacity(capacity).unwrap().max_debt(debt).unwrap();
        let limit = Limit::new(quota).shards(shards);
        let fits = shards > 0 && u64::from(shards) <= rate.min(capacity);
        assert_eq!(limit.is_ok(), fits, "{rate} {capacity} over {shards}");
        if !fits {
            assert_eq!(limit.unwrap_err().field(), "shards");
            continue;
        }
        let parts: Vec<_> = quota.split(shards).unwrap().iter().map(Quota::parts).collect();
        assert_eq!(parts.len(), shards as usize);
        let sum =
            |number: fn(&tidegate::QuotaParts) -> u32| parts.iter().map(|part| u64::from(number(part))).sum::<u64>();
        assert_eq!((sum(|part| part.rate), sum(|part| part.capacity)), (rate, capacity), "over {shards}");
        assert_eq!(sum(|part| part.max_debt.unwrap()), debt);
        for part in &parts {
            let even = |number: u32, whole: u64| u64::from(number).abs_diff(whole / u64::from(shards)) <= 1;
            assert!(part.rate >= 1 && part.capacity >= 1);
            assert!(even(part.rate, rate) && even(part.capacity, capacity), "{part:?} of {quota:?}");
            assert_eq!((part.algorithm, part.period), (quota.algorithm(), seconds(1)));
        }
    }
}

#[test]
fn ten_units_over_three_shards_are_four_three_and_three() {
    let parts = window(10).split(3).unwrap();
    let numbers: Vec<_> = parts.iter().map(|part| (part.parts().rate, part.parts().capacity)).collect();
    assert_eq!(numbers, [(4, 4), (3, 3), (3, 3)]);
    let quota = Quota::sliding_window(9, minutes(1)).unwrap().buckets(6).unwrap().start(seconds(7)).unwrap();
    for part in quota.split(2).unwrap() {
        assert_eq!((part.parts().buckets, part.parts().start, part.parts().period), (6, seconds(7), minutes(1)));
    }
}

#[test]
fn shard_of_less_than_one_unit_is_rejected() {
    {
        let limit = |quota: Quota, shards: u32| Limit::new(quota).shards(shards);
        assert!(limit(window(3), 3).is_ok());
        assert!(limit(window(3), 4).is_err() && limit(window(3), 0).is_err());
        // The smaller of rate and capacity decides.
        assert!(limit(bucket(100).capacity(3).unwrap(), 4).is_err());
        assert!(limit(bucket(3).capacity(100).unwrap(), 4).is_err());
        assert!(limit(window(8), 4).unwrap().with_quota(window(3)).is_err());
    }
}

#[test]
fn shard_of_a_key_is_stable_across_processes() {
    // These are part of the contract with stores that outlive the process: they must never change.
    let keys = ["alice", "bob", "", "a|b", "203.0.113.9", "42"];
    let parts = keys.map(|key| shard_of("", "login", eight_shards(), key.into()));
    assert_eq!(parts, [4, 6, 0, 2, 4, 6]);
    assert_eq!(shard_of("", "login", eight_shards(), ("tenant", "alice").into()), 4);
    assert_eq!(shard_of("", "login", eight_shards(), Key::GLOBAL), 6);
    assert_eq!(shard_of("", "login", eight_shards(), 42_u64.into()), parts[5]);
    // The hash includes limit and prefix, so that a key does not have the same neighbours in every limit.
    assert_eq!(["send", "read", "write"].map(|name| shard_of("", name, eight_shards(), "alice".into())), [0, 6, 7]);
    assert_eq!(["eu", "us", "ap"].map(|prefix| shard_of(prefix, "login", eight_shards(), "alice".into())), [2, 1, 4]);
}

#[test]
fn spellings_of_a_normalized_key_share_one_shard() {
    for key in ["alice", "bob", "carol"] {
        let expected = shard_of("", "login", eight_shards(), key.into());
        for spelling in [format!(" {key}"), format!("{key}\t"), format!("  {key} "), key.to_owned()] {
            let part = shard_of("", "login", eight_shards().normalize(Normalize::Trim), spelling.as_str().into());
            assert_eq!(part, expected, "{spelling:?}");
        }
    }
}

#[test]
fn key_has_the_quota_of_its_shard() {
    let limit = Limit::new(window(10)).shards(3).unwrap();
    let limiter = builder(&clock()).limit("login", limit).build().unwrap();
    let mut sizes = [0_usize; 5];
    for number in 0..200_u64 {
        sizes[decide(limiter.check("login", number)).limit() as usize] += 1;
    }
    let [0, 0, 0, three, four] = sizes else { panic!("{sizes:?}") };
    // One shard of four and two shards of three units, with about as many keys each.
    assert!((40..100).contains(&four) && (100..160).contains(&three), "{sizes:?}");
}

#[test]
fn many_keys_get_exactly_the_whole_quota() {
    for (whole, shards) in [(100, 7), (10, 3), (64, 64), (5, 1), (97, 2)] {
        let clock = clock();
        let limit = Limit::new(window(whole)).shards(shards).unwrap();
        let limiter = builder(&clock).limit("login", limit).build().unwrap();
        for _ in 0..3 {
            let admitted = (0..5_000_u64).filter(|key| decide(limiter.limit("login", *key)).allowed()).count() as u64;
            // A limit with one shard is not a global budget: every key has its own.
            assert_eq!(admitted, if shards == 1 { 5_000 } else { whole }, "{whole} over {shards}");
            clock.advance(minutes(1));
        }
    }
}

#[test]
fn sharded_limit_never_exceeds_the_whole_quota() {
    let clock = clock();
    let quota = Quota::token_bucket(50, seconds(1)).unwrap().capacity(20).unwrap();
    let limiter = builder(&clock).limit("login", Limit::new(quota).shards(6).unwrap()).build().unwrap();
    let began = tidegate::Clock::now(&clock);
    let mut random = Random::new(3);
    let mut had = 0;
    for _ in 0..20_000 {
        if random.one_in(4) {
            clock.advance(millis(random.below(10)));
        }
        let cost = random.between(1, 3);
        if decide(limiter.limit("login", random.below(500)).cost(cost)).allowed() {
            had += cost;
        }
        let passed: Timestamp = tidegate::Clock::now(&clock);
        let most = 20 + passed.since(began).as_micros() as u64 * 50 / 1_000_000;
        assert!(had <= most, "{had} of {most}");
    }
    let most = 20 + tidegate::Clock::now(&clock).since(began).as_micros() as u64 * 50 / 1_000_000;
    assert!(had * 100 > most * 95, "{had} of {most}: the parts are hardly used");
}

#[test]
fn every_operation_uses_the_same_shard() {
    let limiter = builder(&clock()).limit("login", eight_shards()).build().unwrap();
    assert_eq!(decide(limiter.limit("login", "u").cost(4)).remaining(), 6);
    assert_eq!(left(&limiter, "login", "u"), 6);
    assert_eq!(decide(limiter.reserve("login", "u").cost(8)).remaining(), 0);
    assert!(!decide(limiter.limit("login", "u")).allowed());
    assert_eq!(decide(limiter.refund("login", "u").cost(7)).remaining(), 5);
    assert_eq!(decide(limiter.acquire("login", "u", millis(0))).remaining(), 4);
    assert_eq!(limiter.limit("login", "u").try_now().unwrap().remaining(), 3);
    assert_eq!(decide(limiter.reset("login", "u")).remaining(), 10);
    let too_large = decide(limiter.limit("login", "u").cost(11));
    assert_eq!((too_large.allowed(), too_large.reason()), (false, Some(Reason::CostExceedsCapacity)));
}

#[test]
fn user_key_cannot_equal_a_shard_key() {
    // A client that chooses its key cannot reach the shards from outside.
    let clock = clock();
    let store = Arc::new(memory(&clock));
    let build = |limit: Limit| Limiter::builder().limit("login", limit).store(store.clone()).build().unwrap();
    let (cut, whole) = (build(eight_shards()), build(Limit::new(window(80))));
    for number in 0..200_u64 {
        let _ = decide(cut.limit("login", number));
    }
    for part in 0..8_u32 {
        let text = Key::shard(part).to_text().into_owned();
        assert_eq!(left(&whole, "login", text.as_str()), 80, "{text}");
        assert_eq!(left(&whole, "login", Key::from_parts(text.split('|'))), 80, "{text}");
        assert_eq!(left(&whole, "login", part), 80);
    }
}
