//! Joint decisions: several limits, all or nothing, without deadlocks.

use tidegate::{Limiter, MAX_PERIOD, Quota};
use tokio::task::JoinSet;

use crate::support::{client, run, store, store_in_table, unique_name};

const KEYS: u64 = 6;
const CAPACITY: u64 = 400;

/// Some tasks request the same keys in every order, and others request one key. If calls locked rows in different
/// orders, they would deadlock within a few calls.
#[test]
fn joint_calls_in_any_key_order_do_not_deadlock() {
    let quota = Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(CAPACITY).unwrap();
    let limiter = Limiter::builder().limit("a", quota).limit("b", quota).bare_store(store()).build().unwrap();
    let admitted = run(async {
        let mut tasks = JoinSet::new();
        for task in 0..8 {
            let limiter = limiter.clone();
            tasks.spawn(async move {
                let mut admitted = 0;
                for round in 0..120 {
                    let key = |place: u64| (task * 31 + round * 7 + place * (1 + task % 5)) % KEYS;
                    let calls = [limiter.limit("a", key(0)), limiter.limit("b", key(1)), limiter.limit("a", key(2))];
                    let joint = limiter.limit_all(calls).await.unwrap();
                    admitted += u64::from(joint.allowed()) * 3;
                    admitted += u64::from(limiter.limit("b", key(3)).await.unwrap().allowed());
                }
                admitted
            });
        }
        tasks.join_all().await.into_iter().sum::<u64>()
    });
    let mut taken = 0;
    for limit in ["a", "b"] {
        for key in 0..KEYS {
            taken += CAPACITY - run(limiter.check(limit, key).into_future()).unwrap().remaining();
        }
    }
    assert_eq!(taken, admitted, "what was said to be taken is what is missing");
}

#[test]
fn denied_joint_call_writes_nothing() {
    let table = unique_name("nothing");
    let quota = |capacity| Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(capacity).unwrap();
    let limiter = Limiter::builder()
        .limit("many", quota(10))
        .limit("one", quota(1))
        .bare_store(store_in_table(&table))
        .build()
        .unwrap();
    let client = client();
    run(async {
        let limit_both =
            async || limiter.limit_all([limiter.limit("many", "u"), limiter.limit("one", "u")]).await.unwrap();
        assert!(limit_both().await.allowed());
        // Every version of a row has its own transaction in xmin, and a lock leaves one in xmax.
        let rows = format!("SELECT xmin::text, xmax::text, ctid::text FROM {table} ORDER BY key");
        let before: Vec<String> = client.query(&rows, &[]).await.unwrap().iter().map(|row| row.get(2)).collect();
        for _ in 0..3 {
            assert!(!limit_both().await.allowed());
            assert!(!limiter.limit("one", "u").await.unwrap().allowed());
            let _ = limiter.check("many", "u").await.unwrap();
        }
        let rows = client.query(&rows, &[]).await.unwrap();
        let after: Vec<String> = rows.iter().map(|row| row.get(2)).collect();
        assert_eq!(after, before);
        assert!(rows.iter().all(|row| row.get::<_, &str>(1) == "0"), "a denial locks nothing");
    });
}
