//! Decisions inside transactions of the caller.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tidegate::sqlite::{SqliteStore, migration};
use tidegate::{
    Decision, Error, Limit, Limiter, MAX_PERIOD, ManualClock, MemoryStore, Quota, StoreErrorKind, Timestamp, millis,
    seconds,
};
use tidegate_testkit::{Random, block_on};

use crate::support::{CAPACITY, TempFolder, decide, limiter, remaining, run};

fn immediate(connection: &mut Connection) -> Transaction<'_> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
}

fn orders(connection: &Connection) -> u64 {
    connection.query_row("SELECT count(*) FROM orders", [], |row| row.get::<_, i64>(0)).unwrap() as u64
}

/// Takes a unit and adds an order, in one transaction.
fn order(store: &SqliteStore, limiter: &Limiter, connection: &mut Connection) -> Decision {
    let mut transaction = immediate(connection);
    let decision = store.in_transaction(&mut transaction).apply(limiter.limit("a", "alice")).unwrap();
    if decision.allowed() {
        transaction.execute("INSERT INTO orders (who) VALUES ('alice')", []).unwrap();
        transaction.commit().unwrap();
    }
    decision
}

#[test]
fn units_are_taken_on_commit() {
    let folder = TempFolder::new();
    let store = folder.store();
    let (limiter, mut connection) = (limiter(&store), folder.connection());
    connection.execute_batch("CREATE TABLE orders (who TEXT)").unwrap();
    for spent in 1..=CAPACITY {
        assert_eq!(order(&store, &limiter, &mut connection).remaining(), CAPACITY - spent);
        // The store and every later caller see it.
        assert_eq!(remaining(&limiter, "alice"), CAPACITY - spent);
    }
    assert!(!order(&store, &limiter, &mut connection).allowed());
    assert!(!decide(limiter.limit("a", "alice")).unwrap().allowed());
    assert_eq!(orders(&connection), CAPACITY);
}

#[test]
fn units_are_returned_on_rollback() {
    let folder = TempFolder::new();
    let store = folder.store();
    let (limiter, mut connection) = (limiter(&store), folder.connection());
    for _ in 0..3 {
        let mut transaction = immediate(&mut connection);
        for spent in 1..=CAPACITY {
            let inside = store.in_transaction(&mut transaction);
            assert_eq!(inside.apply(limiter.limit("a", "alice")).unwrap().remaining(), CAPACITY - spent);
            assert_eq!(inside.apply(limiter.check("a", "alice")).unwrap().remaining(), CAPACITY - spent);
            // No other connection sees it.
            assert_eq!(remaining(&limiter, "alice"), CAPACITY);
        }
        assert!(!store.in_transaction(&mut transaction).apply(limiter.limit("a", "alice")).unwrap().allowed());
        transaction.rollback().unwrap();
        assert_eq!(remaining(&limiter, "alice"), CAPACITY);
    }
    // A savepoint is rolled back separately.
    let mut transaction = immediate(&mut connection);
    let _ = store.in_transaction(&mut transaction).apply(limiter.limit("a", "alice")).unwrap();
    transaction.execute_batch("SAVEPOINT mine").unwrap();
    let _ = store.in_transaction(&mut transaction).apply(limiter.limit("a", "alice").cost(2)).unwrap();
    transaction.execute_batch("ROLLBACK TO mine").unwrap();
    transaction.commit().unwrap();
    assert_eq!(remaining(&limiter, "alice"), CAPACITY - 1);
}

#[test]
fn joint_call_in_a_transaction_is_all_or_nothing() {
    let folder = TempFolder::new();
    let store = folder.store();
    let (limiter, mut connection) = (limiter(&store), folder.connection());
    let mut transaction = immediate(&mut connection);
    let inside = store.in_transaction(&mut transaction);
    let both = |cost| [limiter.limit("a", "alice").cost(cost), limiter.limit("a", "bob")];
    assert!(inside.limit_all(both(3)).unwrap().allowed());
    assert!(!inside.limit_all(both(3)).unwrap().allowed());
    assert!(inside.limit_all([]).unwrap().allowed());
    transaction.commit().unwrap();
    assert_eq!([remaining(&limiter, "alice"), remaining(&limiter, "bob")], [CAPACITY - 3, CAPACITY - 1]);
}

#[test]
fn joint_call_with_a_failed_write_takes_nothing_on_commit() {
    let folder = TempFolder::new();
    let store = folder.store();
    let (limiter, mut connection) = (limiter(&store), folder.connection());
    let trigger = "CREATE TRIGGER no BEFORE INSERT ON tidegate WHEN new.key = CAST('shop|a|bob' AS BLOB)
                   BEGIN SELECT raise(ABORT, 'not him'); END";
    connection.execute_batch(trigger).unwrap();
    // The store must write rows in any order.
    for _ in 0..20 {
        let mut transaction = immediate(&mut connection);
        let inside = store.in_transaction(&mut transaction);
        let _ = inside.apply(limiter.limit("a", "carol")).unwrap();
        let error = inside.limit_all([limiter.limit("a", "alice"), limiter.limit("a", "bob")]).unwrap_err();
        assert!(error.to_string().contains("not him"), "{error}");
        let _ = inside.apply(limiter.refund("a", "carol")).unwrap();
        transaction.commit().unwrap();
        assert_eq!(["alice", "bob", "carol"].map(|key| remaining(&limiter, key)), [CAPACITY; 3]);
    }
}

#[test]
fn every_operation_and_setting_works_in_a_transaction() {
    let folder = TempFolder::new();
    let store = folder.store();
    let quota = Quota::token_bucket(10, MAX_PERIOD).unwrap();
    let limiter = Limiter::builder()
        .limit("a", quota)
        .limit("sharded", Limit::new(quota).shards(2).unwrap())
        .limit("shadow", Limit::new(quota).shadow(true))
        .deny("a", ["mallory"])
        .unwrap()
        .bare_store(store.clone())
        .build()
        .unwrap();
    let mut connection = folder.connection();
    let mut transaction = immediate(&mut connection);
    let inside = store.in_transaction(&mut transaction);

    assert_eq!(inside.apply(limiter.limit("sharded", "alice")).unwrap().remaining(), 4);
    assert!(inside.apply(limiter.limit("shadow", "alice").cost(11)).unwrap().allowed());
    assert!(inside.apply(limiter.reserve("a", "bob").cost(10)).unwrap().allowed());
    assert!(inside.apply(limiter.reserve("a", "bob")).unwrap().retry_after().is_some());
    assert!(!inside.apply(limiter.limit("a", "mallory")).unwrap().allowed());
    assert!(!inside.limit_all([limiter.limit("a", "carol"), limiter.limit("a", "mallory")]).unwrap().allowed());
    assert_eq!(inside.apply(limiter.check("a", "carol")).unwrap().remaining(), 10);

    // Calls that wait are rejected, and so are mistakes.
    assert!(inside.apply(limiter.acquire("a", "alice", millis(1))).unwrap_err().is_misuse());
    assert!(inside.apply(limiter.limit("b", "alice")).unwrap_err().is_misuse());
    assert!(inside.apply(limiter.limit("a", "alice").cost(0)).unwrap_err().is_misuse());
    assert!(inside.limit_all([limiter.check("a", "alice")]).unwrap_err().is_misuse());
    transaction.commit().unwrap();
    assert_eq!(decide(limiter.check("sharded", "alice")).unwrap().remaining(), 4);
}

#[test]
fn transaction_with_a_stale_read_is_a_retryable_error() {
    let folder = TempFolder::new();
    let store = folder.store();
    let (limiter, mut connection) = (limiter(&store), folder.connection());
    let mut transaction = connection.transaction().unwrap();
    let inside = store.in_transaction(&mut transaction);
    assert_eq!(inside.apply(limiter.check("a", "alice")).unwrap().remaining(), CAPACITY);
    let _ = decide(limiter.limit("a", "alice")).unwrap();
    // The store sweeps after its first row. That sweep is done when another one is done.
    block_on(store.sweep()).unwrap();
    let error = inside.apply(limiter.limit("a", "alice")).unwrap_err();
    assert!(error.is_retryable());
    let text = error.to_string();
    assert!(text.contains("run it again") && text.contains("IMMEDIATE") && text.contains("sqlite: "), "{text}");
    transaction.rollback().unwrap();

    // A deferred transaction works as well, if no other connection writes before it.
    let mut transaction = connection.transaction().unwrap();
    assert_eq!(
        store.in_transaction(&mut transaction).apply(limiter.limit("a", "alice")).unwrap().remaining(),
        CAPACITY - 2
    );
    transaction.commit().unwrap();
    assert_eq!(remaining(&limiter, "alice"), CAPACITY - 2);
}

#[test]
fn database_without_the_table_needs_the_migration() {
    let folder = TempFolder::new();
    let store = folder.store_with(SqliteStore::builder().table("limits").unwrap());
    let limiter = limiter(&store);
    let mut connection = Connection::open(folder.path().join("other.db")).unwrap();
    let mut transaction = immediate(&mut connection);
    let Error::Store(error) = store.in_transaction(&mut transaction).apply(limiter.limit("a", "alice")).unwrap_err()
    else {
        panic!()
    };
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("tidegate::sqlite::migration"), "{error}");
    transaction.execute_batch(&migration("limits").unwrap()).unwrap();
    assert!(store.in_transaction(&mut transaction).apply(limiter.limit("a", "alice")).unwrap().allowed());
    transaction.commit().unwrap();
    // It is another database.
    assert_eq!(remaining(&limiter, "alice"), CAPACITY);
}

#[test]
fn ended_transaction_takes_nothing() {
    let folder = TempFolder::new();
    let store = folder.store();
    let (limiter, mut connection) = (limiter(&store), folder.connection());
    let mut transaction = immediate(&mut connection);
    // As SQLite does by itself after some errors.
    transaction.execute_batch("ROLLBACK").unwrap();
    let inside = store.in_transaction(&mut transaction);
    for error in [
        inside.apply(limiter.limit("a", "alice")).unwrap_err(),
        inside.limit_all([limiter.limit("a", "alice"), limiter.limit("a", "bob")]).unwrap_err(),
    ] {
        assert!(error.is_retryable() && error.to_string().contains("has ended"), "{error}");
    }
    drop(transaction);
    assert_eq!(remaining(&limiter, "alice"), CAPACITY);
}

#[test]
fn transactions_and_store_calls_never_exceed_the_quota() {
    const SHARED_CAPACITY: u64 = 400;
    let folder = TempFolder::new();
    let store = folder.store();
    let quota = Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(SHARED_CAPACITY).unwrap();
    let limiter = crate::support::limiter_with_quota(&store, quota);
    let admitted: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (folder, store, limiter) = (&folder, &store, &limiter);
                scope.spawn(move || {
                    let mut connection = folder.connection();
                    let allowed = (0..SHARED_CAPACITY / 2).filter(|_| {
                        if thread % 2 == 0 {
                            return decide(limiter.limit("a", "everybody")).unwrap().allowed();
                        }
                        let mut transaction = immediate(&mut connection);
                        let decision = store.in_transaction(&mut transaction).apply(limiter.limit("a", "everybody"));
                        transaction.commit().unwrap();
                        decision.unwrap().allowed()
                    });
                    allowed.count() as u64
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, SHARED_CAPACITY);
}

#[test]
fn random_calls_in_transactions_agree_with_the_memory_store() {
    let quotas = [
        Quota::token_bucket(10, seconds(10)).unwrap(),
        Quota::fixed_window(8, seconds(5)).unwrap(),
        Quota::sliding_window(10, seconds(10)).unwrap().buckets(5).unwrap(),
        Quota::sliding_log(10, seconds(10)).unwrap(),
    ];
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    for (seed, quota) in quotas.into_iter().enumerate() {
        let folder = TempFolder::new();
        let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
        let build = |builder: tidegate::LimiterBuilder| builder.limit("a", quota).build().unwrap();
        let limiter = build(Limiter::builder().bare_store(store.clone()));
        let memory = build(Limiter::builder().bare_store(MemoryStore::builder().clock(clock.clone()).build()));
        let (mut connection, mut random) = (folder.connection(), Random::new(seed as u64));
        for step in 0..150 {
            clock.advance(std::time::Duration::from_micros(random.below(3_000_000)));
            let (key, cost, what) = (random.below(2), 1 + random.below(5), random.below(6));
            let call = |limiter: &Limiter, decide: &dyn Fn(tidegate::Call<'_>) -> Result<Decision, Error>| {
                let call = match what {
                    0..=2 => limiter.limit("a", key),
                    3 => limiter.check("a", key),
                    4 => limiter.reserve("a", key),
                    _ => limiter.refund("a", key),
                };
                decide(call.cost(cost)).unwrap().into_parts()
            };
            // Now inside, now outside.
            let actual = if random.below(3) == 0 {
                call(&limiter, &|call| decide(call))
            } else {
                let mut transaction = immediate(&mut connection);
                let inside = store.in_transaction(&mut transaction);
                let decision = call(&limiter, &|call| inside.apply(call));
                transaction.commit().unwrap();
                decision
            };
            assert_eq!(actual, call(&memory, &|call| call.try_now()), "{quota:?}, step {step}");
        }
        run(tidegate::Store::close(&store));
    }
}
