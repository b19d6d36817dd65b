//! Step by step beside the memory store, where the function has something special to do.

use tidegate::{
    Cost, Key, MAX_COUNT, MemoryStore, OnStoreError, Op, Quota, Request, Scope, Testing, Timestamp, days, millis,
    seconds,
};
use tidegate_testkit::oracle;

use crate::support::{client, run, store_in, subject, unique};

#[test]
fn a_log_that_is_longer_than_an_answer_shows() {
    let (table, client) = (unique("log"), client());
    let store = store_in(&table);
    // Adds to the running totals of a stored log, which mean the same then.
    let raise = format!(
        "UPDATE {table} SET state = ARRAY(SELECT CASE WHEN i % 2 = 0 THEN n + 4503599627370496 ELSE n END \
         FROM unnest(state) WITH ORDINALITY AS t (n, i) ORDER BY i) WHERE key = $1"
    );
    let quota = Quota::sliding_log(60, seconds(100)).unwrap().max_debt(40).unwrap();
    for seed in 0..12 {
        run(oracle::beside(
            &subject(&store),
            &MemoryStore::new(),
            &quota,
            (seed, 4_000_000, 30),
            async |step, scope: &Scope| {
                if step == 75 {
                    let name = format!("{}|u1", scope.as_str()).into_bytes();
                    assert_eq!(client.execute(&raise, &[&name]).await.unwrap(), 1);
                }
            },
        ));
    }
}

#[test]
fn buckets_around_the_end_of_one_number() {
    let store = store_in(&unique("bucket"));
    // 31,622,400,000,000 sub-units each: 285 of them are the first that do not fit in 53 bits.
    let year = Quota::token_bucket(1, days(366)).unwrap();
    for capacity in [140, 284, 285, 286, 570, 5_000] {
        for debt in [0, 100, 300] {
            let quota = year.capacity(capacity).unwrap().max_debt(debt).unwrap();
            let numbers = (debt, 40_000_000_000_000, capacity);
            run(oracle::beside(&subject(&store), &MemoryStore::new(), &quota, numbers, async |_, _: &Scope| ()));
        }
    }
}

#[test]
fn numbers_whose_products_do_not_fit_in_64_bits() {
    let store = store_in(&unique("large"));
    let quotas = [
        Quota::token_bucket(4_294_967_291, days(366)).unwrap().capacity(MAX_COUNT).unwrap(),
        Quota::token_bucket(1, days(366)).unwrap().capacity(MAX_COUNT).unwrap(),
        Quota::fixed_window(1, days(366)).unwrap().capacity(MAX_COUNT).unwrap(),
        Quota::fixed_window(MAX_COUNT, millis(1)).unwrap(),
        Quota::sliding_window(MAX_COUNT, days(366)).unwrap(),
        Quota::sliding_window(MAX_COUNT, days(366)).unwrap().buckets(64).unwrap(),
        Quota::sliding_log(MAX_COUNT, days(366)).unwrap(),
    ];
    for (seed, quota) in quotas.iter().enumerate() {
        let numbers = (seed as u64, 3_000_000_000_000, MAX_COUNT);
        run(oracle::beside(&subject(&store), &MemoryStore::new(), quota, numbers, async |_, _: &Scope| ()));
    }
}

/// Windows begin at `start` plus whole periods, before the first of them too.
#[test]
fn times_before_the_start() {
    let (subject, memory) = (subject(&store_in(&unique("start"))), MemoryStore::new());
    let quota = Quota::fixed_window(2, seconds(3)).unwrap().capacity(50).unwrap().start(seconds(1)).unwrap();
    let (scope, key, op) = (subject.scope("start", "a"), Key::from("u1"), Op::Limit(Cost::ONE));
    let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Closed };
    for at in [0, 1, 400_000, 999_999, 1_000_000, 1_000_001, 3_999_999, 4_000_000, 4_000_001, 4_000_002, 7_000_000] {
        for _ in 0..2 {
            let at = Timestamp::from_micros(at);
            let expected = run(memory.apply_at(&request, at)).unwrap().into_parts();
            let found = run(subject.store().apply_at(&request, at)).unwrap().into_parts();
            assert_eq!(found, expected, "{at:?}");
        }
    }
}
