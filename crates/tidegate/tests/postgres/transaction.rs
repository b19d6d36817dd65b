//! Decisions inside a transaction of the caller.

use tidegate::postgres::PostgresStore;
use tidegate::{Error, Limit, Limiter, MAX_PERIOD, Quota, StoreErrorKind, millis};
use tokio_postgres::IsolationLevel;

use crate::support::{builder, client, pool, run, store, store_in_table, unique_name};

fn limiter(store: &PostgresStore) -> Limiter {
    let quota = |capacity| Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(capacity).unwrap();
    let sharded = Limit::new(Quota::sliding_log(8, MAX_PERIOD).unwrap()).shards(4).unwrap();
    Limiter::builder()
        .limit("orders", quota(3))
        .limit("mails", quota(1))
        .limit("sharded", sharded)
        .bare_store(store.clone())
        .build()
        .unwrap()
}

#[test]
fn units_are_taken_on_commit_and_returned_on_rollback() {
    let (store, mut client) = (store(), client());
    let limiter = limiter(&store);
    run(async {
        let remaining = async || limiter.check("orders", "u").await.unwrap().remaining();
        let mut tx = client.transaction().await.unwrap();
        let decision = store.in_transaction(&mut tx).apply(limiter.limit("orders", "u").cost(2)).await.unwrap();
        assert_eq!((decision.allowed(), decision.remaining()), (true, 1));
        assert_eq!(store.in_transaction(&mut tx).apply(limiter.check("orders", "u")).await.unwrap().remaining(), 1);
        assert_eq!(remaining().await, 3, "nobody else sees it yet");
        tx.rollback().await.unwrap();
        assert_eq!(remaining().await, 3);

        let mut tx = client.transaction().await.unwrap();
        let within = store.in_transaction(&mut tx);
        assert!(within.apply(limiter.limit("orders", "u").cost(2)).await.unwrap().allowed());
        assert!(!within.apply(limiter.limit("orders", "u").cost(2)).await.unwrap().allowed());
        let _ = within.apply(limiter.refund("orders", "u")).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(remaining().await, 2);
        let _ = limiter.reset("orders", "u").await.unwrap();
        assert_eq!(remaining().await, 3);
    });
}

#[test]
fn joint_calls_and_sharded_limits_work_in_a_transaction() {
    let (store, mut client) = (store(), client());
    let limiter = limiter(&store);
    run(async {
        let mut tx = client.transaction().await.unwrap();
        let within = store.in_transaction(&mut tx);
        let both = || [limiter.limit("orders", "u"), limiter.limit("mails", "u")];
        assert!(within.limit_all(both()).await.unwrap().allowed());
        assert!(!within.limit_all(both()).await.unwrap().allowed());
        assert!(within.limit_all([]).await.unwrap().allowed());
        let mut admitted = 0;
        for _ in 0..40 {
            admitted += u32::from(within.apply(limiter.limit("sharded", "u")).await.unwrap().allowed());
        }
        assert_eq!(admitted, 2);
        tx.rollback().await.unwrap();
        assert_eq!(limiter.check("sharded", "u").await.unwrap().remaining(), 2);
        assert_eq!(limiter.check("mails", "u").await.unwrap().remaining(), 1);
    });
}

#[test]
fn misuse_is_an_error_and_the_transaction_stays_usable() {
    let (store, mut client) = (store(), client());
    let limiter = limiter(&store);
    run(async {
        let mut tx = client.transaction().await.unwrap();
        let within = store.in_transaction(&mut tx);
        let acquire = within.apply(limiter.acquire("orders", "u", millis(1))).await.unwrap_err();
        assert!(acquire.to_string().contains("transaction open while it waits"), "{acquire}");
        assert!(matches!(within.apply(limiter.limit("nobody", "u")).await, Err(Error::UnknownLimit(_))));
        assert!(within.apply(limiter.limit("orders", "u").cost(0)).await.is_err());
        assert!(within.apply(limiter.limit("orders", "u")).await.unwrap().allowed());
        tx.commit().await.unwrap();
    });
}

/// Returns how many steps on a table wait for a lock.
async fn count_lock_waiters(watcher: &tokio_postgres::Client, table: &str) -> i64 {
    let query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
    watcher.query_one(query, &[&format!("%{table}_step%")]).await.unwrap().get(0)
}

async fn wait_for_lock_waiter(watcher: &tokio_postgres::Client, table: &str) {
    while count_lock_waiters(watcher, table).await == 0 {
        tokio::task::yield_now().await;
    }
}

/// Returns whether fewer than `limit` steps wait for a lock soon.
async fn lock_waiters_drop_below(watcher: &tokio_postgres::Client, table: &str, limit: i64) -> bool {
    for _ in 0..100 {
        if count_lock_waiters(watcher, table).await < limit {
            return true;
        }
        tokio::time::sleep(millis(10)).await;
    }
    false
}

/// A call waits while a transaction locks the row, and then decides by the committed state.
#[test]
fn concurrent_call_waits_for_the_row_and_sees_the_commit() {
    let table = unique_name("waits");
    let (store, mut client, watcher) = (store_in_table(&table), client(), client());
    let limiter = limiter(&store);
    run(async {
        let mut tx = client.transaction().await.unwrap();
        assert!(store.in_transaction(&mut tx).apply(limiter.limit("mails", "u")).await.unwrap().allowed());
        let other = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.limit("mails", "u").await.unwrap().allowed() }
        });
        wait_for_lock_waiter(&watcher, &table).await;
        tx.commit().await.unwrap();
        assert!(!other.await.unwrap());
    });
}

#[test]
fn wait_for_a_locked_row_times_out() {
    let (store, mut client) = (store(), client());
    let limiter = limiter(&store);
    run(async {
        assert!(limiter.limit("orders", "u").await.unwrap().allowed());
        let mut tx = client.transaction().await.unwrap();
        assert!(store.in_transaction(&mut tx).apply(limiter.limit("orders", "u")).await.unwrap().allowed());
        let error = limiter.limit("orders", "u").await.unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("lock timeout"), "{error}");
        assert!(matches!(&error, Error::Store(error) if error.kind() == StoreErrorKind::Contended), "{error:?}");
        tx.rollback().await.unwrap();
        assert_eq!(limiter.check("orders", "u").await.unwrap().remaining(), 2);
    });
}

/// A table lock concerns every key, so it is no `Contended` error.
#[test]
fn wait_for_a_locked_table_times_out() {
    let table = unique_name("table");
    let (store, mut client) = (store_in_table(&table), client());
    let limiter = limiter(&store);
    run(async {
        let tx = client.transaction().await.unwrap();
        tx.batch_execute(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await.unwrap();
        let error = limiter.limit("orders", "u").await.unwrap_err();
        assert!(matches!(&error, Error::Store(error) if error.kind() == StoreErrorKind::Timeout), "{error:?}");
        tx.rollback().await.unwrap();
    });
}

/// Calls that are given up while they wait for a row leave connections for other calls, and none open at the server.
#[test]
fn locked_row_does_not_exhaust_the_connections() {
    let table = unique_name("locked");
    let (store, mut client, watcher) = (store_in_table(&table), client(), client());
    let limiter = limiter(&store);
    run(async {
        assert!(limiter.limit("orders", "u").await.unwrap().allowed());
        let mut tx = client.transaction().await.unwrap();
        assert!(store.in_transaction(&mut tx).apply(limiter.limit("orders", "u")).await.unwrap().allowed());
        // More than there are connections.
        for _ in 0..20 {
            let given_up = async {
                wait_for_lock_waiter(&watcher, &table).await;
                tokio::time::sleep(millis(20)).await;
            };
            tokio::select! {
                answer = limiter.limit("orders", "u").into_future() => panic!("the row is locked: {answer:?}"),
                () = given_up => {}
            }
        }
        assert!(lock_waiters_drop_below(&watcher, &table, 10).await, "they wait for the row, and nobody for them");
        // If a connection were still busy with one of those, this would wait for it for up to two seconds.
        for key in 0..20_u32 {
            let call = limiter.limit("orders", key).into_future();
            let decision = tokio::time::timeout(millis(1_000), call).await.expect("a connection that is free");
            assert!(decision.unwrap().allowed());
        }
        tx.rollback().await.unwrap();
    });
}

/// A batch sends its statements at once. Without a cancel, the server would run the next one and wait for its row, too.
#[test]
fn abandoned_batch_is_cancelled_on_the_server() {
    let table = unique_name("batch");
    let (store, mut client, watcher) = (store_in_table(&table), client(), client());
    let limiter = limiter(&store);
    run(async {
        let mut tx = client.transaction().await.unwrap();
        for key in 0..32_u32 {
            assert!(store.in_transaction(&mut tx).apply(limiter.limit("orders", key)).await.unwrap().allowed());
        }
        let batch = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.batch((0..32_u32).map(|key| limiter.limit("orders", key))).await }
        });
        wait_for_lock_waiter(&watcher, &table).await;
        batch.abort();
        assert!(lock_waiters_drop_below(&watcher, &table, 1).await, "the server goes on with it");
        tx.rollback().await.unwrap();
    });
}

#[test]
fn decisions_in_transactions_trigger_sweeps() {
    let table = unique_name("swept");
    let (store, mut client) = (store_in_table(&table), client());
    let limiter = limiter(&store);
    let other = crate::support::client();
    run(async {
        let _ = limiter.limit("orders", "old").await.unwrap();
        other.execute(&format!("UPDATE {table} SET expires_at = 1"), &[]).await.unwrap();
        for key in 0..100_u32 {
            let mut tx = client.transaction().await.unwrap();
            let _ = store.in_transaction(&mut tx).apply(limiter.limit("orders", key)).await.unwrap();
            tx.commit().await.unwrap();
        }
        let old = format!("SELECT count(*) FROM {table} WHERE expires_at = 1");
        let left = async || other.query_one(&old, &[]).await.unwrap().get::<_, i64>(0);
        for _ in 0..1_000 {
            if left().await == 0 {
                return;
            }
            tokio::time::sleep(millis(10)).await;
        }
        panic!("nothing was swept");
    });
}

/// Closing a store does not close a pool that the caller made.
#[test]
fn pool_of_the_caller_stays_open_after_close() {
    let pool = pool();
    let limiter = limiter(&run(builder(&unique_name("shared")).over(pool.clone())).unwrap());
    run(async {
        assert!(limiter.limit("orders", "u").await.unwrap().allowed());
        limiter.close().await;
        assert!(pool.get().await.is_ok());
    });
}

/// Under stricter isolation, a transaction with an old snapshot gets an error, and takes nothing.
#[test]
fn stale_snapshot_is_a_retryable_error() {
    let table = unique_name("isolation");
    let (store, mut client) = (store_in_table(&table), client());
    let limiter = limiter(&store);
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        for used_before in [true, false] {
            run(async {
                let _ = limiter.reset("orders", "u").await.unwrap();
                if used_before {
                    assert!(limiter.limit("orders", "u").await.unwrap().allowed());
                }
                let mut tx = client.build_transaction().isolation_level(level).start().await.unwrap();
                tx.query("SELECT 1", &[]).await.unwrap(); // the snapshot is taken here
                let before = limiter.limit("orders", "u").await.unwrap().remaining();
                let error = store.in_transaction(&mut tx).apply(limiter.limit("orders", "u")).await.unwrap_err();
                assert!(error.is_retryable(), "{level:?}: {error}");
                assert!(error.to_string().contains("could not serialize"), "{level:?}: {error}");
                tx.rollback().await.unwrap();
                assert_eq!(limiter.check("orders", "u").await.unwrap().remaining(), before);
            });
        }
    }
}
