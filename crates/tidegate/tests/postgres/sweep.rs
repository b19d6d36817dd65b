//! Sweeps of expired rows, and of no others.

use tidegate::postgres::PostgresStore;
use tidegate::{Algorithm, Limiter, Quota, days, hours, millis};
use tidegate_servers::wait_until;

use crate::support::{client, run, store_in_table, unique_name};

fn limiter(store: &PostgresStore) -> Limiter {
    Limiter::builder()
        .limit("short", Quota::token_bucket(1, millis(1)).unwrap())
        .limit("many", Quota::token_bucket(1_000, hours(1)).unwrap())
        .limit("long", Quota::token_bucket(1, hours(1)).unwrap())
        .bare_store(store.clone())
        .build()
        .unwrap()
}

fn rows(table: &str) -> i64 {
    run(client().query_one(&format!("SELECT count(*) FROM {table}"), &[])).unwrap().get(0)
}

/// Ages all rows of a table, so that those of `short` expire and those of `long` do not.
fn age_rows(table: &str) {
    run(client().execute(&format!("UPDATE {table} SET expires_at = expires_at - 100000000"), &[])).unwrap();
}

fn take(limiter: &Limiter, limit: &str, keys: std::ops::Range<u32>) {
    for key in keys {
        assert!(run(limiter.limit(limit, key).into_future()).unwrap().allowed());
    }
}

#[test]
fn sweep_removes_expired_rows_only() {
    let table = unique_name("sweep");
    let store = store_in_table(&table);
    let limiter = limiter(&store);
    take(&limiter, "long", 0..20);
    take(&limiter, "short", 0..60);
    assert_eq!(run(store.sweep()).unwrap(), 0, "a minute of grace has not passed");
    age_rows(&table);
    assert_eq!(run(store.sweep()).unwrap(), 60);
    assert_eq!((run(store.sweep()).unwrap(), rows(&table)), (0, 20));
    assert!(!run(limiter.limit("long", 3_u32).into_future()).unwrap().allowed(), "what was used is not forgotten");
}

#[test]
fn every_hundredth_call_triggers_a_sweep() {
    let table = unique_name("calls");
    let store = store_in_table(&table);
    let limiter = limiter(&store);
    take(&limiter, "short", 0..90);
    age_rows(&table);
    assert_eq!(rows(&table), 90);
    // The hundredth decision lets a batch be swept.
    take(&limiter, "long", 0..10);
    assert!(wait_until(|| rows(&table) == 10), "{} rows are left", rows(&table));
}

/// A row is kept until its key is as good as new, and not a microsecond less, also with a clock that is behind.
#[test]
fn row_is_kept_until_its_key_has_recovered() {
    let (period, client) = (days(300), client());
    let micros = period.as_micros() as i64;
    // The index of the time in the state.
    let quotas = [
        (Quota::token_bucket(1, period).unwrap().capacity(9).unwrap(), 2),
        (Quota::fixed_window(9, period).unwrap(), 2),
        (Quota::sliding_window(9, period).unwrap(), 1),
    ];
    for (quota, place) in quotas {
        let table = unique_name("kept");
        let limiter = Limiter::builder().limit("l", quota).bare_store(store_in_table(&table)).build().unwrap();
        let take = || assert!(run(limiter.limit("l", "u").into_future()).unwrap().allowed());
        take();
        // A whole period behind.
        let ahead = format!("UPDATE {table} SET state[{place}] = state[{place}] + $1");
        let query = format!("SELECT state[{place}], expires_at FROM {table}");
        let row = || run(client.query_one(&query, &[])).unwrap();
        for behind in [0, micros] {
            run(client.execute(&ahead, &[&behind])).unwrap();
            let keep = |until: i64| {
                run(client.execute(&format!("UPDATE {table} SET expires_at = $1"), &[&until])).unwrap();
                take();
                row().get::<_, i64>(1)
            };
            let (last, taken): (i64, i64) = (row().get(0), if behind == 0 { 1 } else { 3 });
            let ends = last / micros * micros + micros;
            // The key is as good as new after the two units below are replenished, too.
            let good = match quota.algorithm() {
                Algorithm::TokenBucket => last + (taken + 2) * micros,
                Algorithm::FixedWindow => ends,
                _ => ends + micros,
            };
            // A bucket is replenished a little during the test.
            let about = if quota.algorithm() == Algorithm::TokenBucket { 60_000_000 } else { 0 };
            assert_eq!(keep(good + about), good + about, "{quota:?}, {behind}: that is long enough");
            assert!(keep(good - about - 1) > good, "{quota:?}, {behind}: that is not");
        }
    }
}

#[test]
fn row_that_is_used_again_is_kept_longer() {
    let table = unique_name("again");
    let limiter = limiter(&store_in_table(&table));
    let client = client();
    // The minutes for which the row is kept.
    let kept = || -> i64 {
        let query =
            format!("SELECT (expires_at - extract(epoch FROM now()) * 1000000)::bigint / 60000000 FROM {table}");
        run(client.query_one(&query, &[])).unwrap().get(0)
    };
    let take = |cost| assert!(run(limiter.limit("many", "u").cost(cost).into_future()).unwrap().allowed());
    take(200); // 12 minutes' worth
    assert!((18..=19).contains(&kept()), "{}", kept());
    take(50); // 15 minutes' worth, which is covered
    assert!((18..=19).contains(&kept()), "{}", kept());
    take(150); // 24 minutes' worth, which is not
    assert!((36..=37).contains(&kept()), "{}", kept());
}

/// A long transaction locks rows. The sweep skips them.
#[test]
fn sweep_skips_locked_rows() {
    let table = unique_name("locked");
    let store = store_in_table(&table);
    take(&limiter(&store), "short", 0..10);
    age_rows(&table);
    let mut holder = client();
    run(async {
        let transaction = holder.transaction().await.unwrap();
        let lock = format!("SELECT key FROM {table} ORDER BY key LIMIT 3 FOR UPDATE");
        transaction.query(&lock, &[]).await.unwrap();
        assert_eq!(store.sweep().await.unwrap(), 7);
        transaction.rollback().await.unwrap();
        assert_eq!(store.sweep().await.unwrap(), 3);
    });
}

#[test]
fn sweep_uses_the_index() {
    let table = unique_name("plan");
    let _store = store_in_table(&table);
    let client = client();
    let fill = format!(
        "INSERT INTO {table} SELECT int4send(i), '\\x00', '{{1}}', 9000000000000000 FROM generate_series(1, 20000) AS i"
    );
    run(client.batch_execute(&format!("{fill}; ANALYZE {table}"))).unwrap();
    let sweep = include_str!("../../src/store/postgres/sql/sweep.sql").replace("{table}", &table).replace("$1", "200");
    let plan = run(client.query(&format!("EXPLAIN {sweep}"), &[])).unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    assert!(plan.iter().any(|line| line.contains(&format!("Index Scan using {table}_expires"))), "{plan:#?}");
    assert!(!plan.iter().any(|line| line.contains("Seq Scan")), "{plan:#?}");
}

/// Most writes leave both indexes unchanged: the row's next version is on the same page, with an unchanged expiry.
#[test]
fn busy_key_does_not_bloat_the_indexes() {
    let table = unique_name("hot");
    let store = store_in_table(&table);
    let limiter = limiter(&store);
    assert!(run(limiter.limit("many", "u").cost(600).into_future()).unwrap().allowed());
    for _ in 0..100 {
        assert!(run(limiter.limit("many", "u").into_future()).unwrap().allowed());
    }
    let client = client();
    let statistics = format!("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = '{table}'");
    let mut seen = (0, 0);
    wait_until(|| {
        let row = run(client.query_one(&statistics, &[])).unwrap();
        seen = (row.get::<_, i64>(0), row.get::<_, i64>(1));
        seen.0 >= 100
    });
    assert_eq!(seen.0, 100);
    assert!(seen.1 >= 95, "{} of 100 updates left the indexes alone", seen.1);
}
