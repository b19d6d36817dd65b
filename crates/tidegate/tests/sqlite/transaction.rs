//! Decisions inside transactions of the caller's.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tidegate::sqlite::{SqliteStore, migration};
use tidegate::{
    Decision, Error, Limit, Limiter, MAX_PERIOD, ManualClock, MemoryStore, Quota, StoreErrorKind, Timestamp, millis,
    seconds,
};
use tidegate_testkit::{Random, block_on};

use crate::support::{CAPACITY, Folder, ask, left, limiter, run};

fn immediate(connection: &mut Connection) -> Transaction<'_> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
}

fn orders(connection: &Connection) -> u64 {
    connection.query_row("SELECT count(*) FROM orders", [], |row| row.get::<_, i64>(0)).unwrap() as u64
}

/// Orders as long as the limit allows it, in one transaction with the order itself.
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
fn what_is_taken_is_committed_with_the_rest() {
    let folder = Folder::new();
    let store = folder.store();
    let (limiter, mut connection) = (limiter(&store), folder.connection());
    connection.execute_batch("CREATE TABLE orders (who TEXT)").unwrap();
    for spent in 1..=CAPACITY {
        assert_eq!(order(&store, &limiter, &mut connection).remaining(), CAPACITY - spent);
        // The store sees it, and so does whoever comes later.
        assert_eq!(left(&limiter, "alice"), CAPACITY - spent);
    }
    assert!(!order(&store, &limiter, &mut connection).allowed());
    assert!(!ask(limiter.limit("a", "alice")).unwrap().allowed());
    assert_eq!(orders(&connection), CAPACITY);
}

#[test]
fn what_is_taken_is_rolled_back_with_the_rest() {
    let folder = Folder::new();
    let store = folder.store();
    let (limiter, mut connection) = (limiter(&store), folder.connection());
    for _ in 0..3 {
        let mut transaction = immediate(&mut connection);
        for spent in 1..=CAPACITY {
            let inside = store.in_transaction(&mut transaction);
            assert_eq!(inside.apply(limiter.limit("a", "alice")).unwrap().remaining(), CAPACITY - spent);
            assert_eq!(inside.apply(limiter.check("a", "alice")).unwrap().remaining(), CAPACITY - spent);
            // Nobody else sees it.
            assert_eq!(left(&limiter, "alice"), CAPACITY);
        }
        assert!(!store.in_transaction(&mut transaction).apply(limiter.limit("a", "alice")).unwrap().allowed());
        transaction.rollback().unwrap();
        assert_eq!(left(&limiter, "alice"), CAPACITY);
    }
    // A savepoint is rolled back by itself.
    let mut transaction = immediate(&mut connection);
    let _ = store.in_transaction(&mut transaction).apply(limiter.limit("a", "alice")).unwrap();
    transaction.execute_batch("SAVEPOINT mine").unwrap();
    let _ = store.in_transaction(&mut transaction).apply(limiter.limit("a", "alice").cost(2)).unwrap();
    transaction.execute_batch("ROLLBACK TO mine").unwrap();
    transaction.commit().unwrap();
    assert_eq!(left(&limiter, "alice"), CAPACITY - 1);
}

#[test]
fn all_or_nothing_inside() {
    let folder = Folder::new();
    let store = folder.store();
    let (limiter, mut connection) = (limiter(&store), folder.connection());
    let mut transaction = immediate(&mut connection);
    let inside = store.in_transaction(&mut transaction);
    let both = |cost| [limiter.limit("a", "alice").cost(cost), limiter.limit("a", "bob")];
    assert!(inside.limit_all(both(3)).unwrap().allowed());
    assert!(!inside.limit_all(both(3)).unwrap().allowed());
    assert!(inside.limit_all([]).unwrap().allowed());
    transaction.commit().unwrap();
    assert_eq!([left(&limiter, "alice"), left(&limiter, "bob")], [CAPACITY - 3, CAPACITY - 1]);
}

#[test]
fn all_is_nothing_when_writing_fails_in_the_middle_and_the_caller_commits_all_the_same() {
    let folder = Folder::new();
    let store = folder.store();
    let (limiter, mut connection) = (limiter(&store), folder.connection());
    let trigger = "CREATE TRIGGER no BEFORE INSERT ON tidegate WHEN new.key = CAST('shop|a|bob' AS BLOB)
                   BEGIN SELECT raise(ABORT, 'not him'); END";
    connection.execute_batch(trigger).unwrap();
    // Rows are written in no order in particular.
    for _ in 0..20 {
        let mut transaction = immediate(&mut connection);
        let inside = store.in_transaction(&mut transaction);
        let _ = inside.apply(limiter.limit("a", "carol")).unwrap();
        let error = inside.limit_all([limiter.limit("a", "alice"), limiter.limit("a", "bob")]).unwrap_err();
        assert!(error.to_string().contains("not him"), "{error}");
        let _ = inside.apply(limiter.refund("a", "carol")).unwrap();
        transaction.commit().unwrap();
        assert_eq!(["alice", "bob", "carol"].map(|key| left(&limiter, key)), [CAPACITY; 3]);
    }
}

#[test]
fn every_operation_and_setting_works_inside() {
    let folder = Folder::new();
    let store = folder.store();
    let quota = Quota::token_bucket(10, MAX_PERIOD).unwrap();
    let limiter = Limiter::builder()
        .limit("a", quota)
        .limit("cut", Limit::new(quota).shards(2).unwrap())
        .limit("shadow", Limit::new(quota).shadow(true))
        .deny("a", ["mallory"])
        .unwrap()
        .bare_store(store.clone())
        .build()
        .unwrap();
    let mut connection = folder.connection();
    let mut transaction = immediate(&mut connection);
    let inside = store.in_transaction(&mut transaction);

    assert_eq!(inside.apply(limiter.limit("cut", "alice")).unwrap().remaining(), 4);
    assert!(inside.apply(limiter.limit("shadow", "alice").cost(11)).unwrap().allowed());
    assert!(inside.apply(limiter.reserve("a", "bob").cost(10)).unwrap().allowed());
    assert!(inside.apply(limiter.reserve("a", "bob")).unwrap().retry_after().is_some());
    assert!(!inside.apply(limiter.limit("a", "mallory")).unwrap().allowed());
    assert!(!inside.limit_all([limiter.limit("a", "carol"), limiter.limit("a", "mallory")]).unwrap().allowed());
    assert_eq!(inside.apply(limiter.check("a", "carol")).unwrap().remaining(), 10);

    // What waits is refused, and so are mistakes.
    assert!(inside.apply(limiter.acquire("a", "alice", millis(1))).unwrap_err().is_misuse());
    assert!(inside.apply(limiter.limit("b", "alice")).unwrap_err().is_misuse());
    assert!(inside.apply(limiter.limit("a", "alice").cost(0)).unwrap_err().is_misuse());
    assert!(inside.limit_all([limiter.check("a", "alice")]).unwrap_err().is_misuse());
    transaction.commit().unwrap();
    assert_eq!(ask(limiter.check("cut", "alice")).unwrap().remaining(), 4);
}

#[test]
fn a_transaction_that_read_before_somebody_wrote_has_to_be_run_again() {
    let folder = Folder::new();
    let store = folder.store();
    let (limiter, mut connection) = (limiter(&store), folder.connection());
    let mut transaction = connection.transaction().unwrap();
    let inside = store.in_transaction(&mut transaction);
    assert_eq!(inside.apply(limiter.check("a", "alice")).unwrap().remaining(), CAPACITY);
    let _ = ask(limiter.limit("a", "alice")).unwrap();
    // After its first row the store sweeps, and is done with that when another sweep is done.
    block_on(store.sweep()).unwrap();
    let error = inside.apply(limiter.limit("a", "alice")).unwrap_err();
    assert!(error.is_retryable());
    let text = error.to_string();
    assert!(text.contains("run it again") && text.contains("IMMEDIATE") && text.contains("sqlite: "), "{text}");
    transaction.rollback().unwrap();

    // A deferred one that nobody comes before works as well.
    let mut transaction = connection.transaction().unwrap();
    assert_eq!(
        store.in_transaction(&mut transaction).apply(limiter.limit("a", "alice")).unwrap().remaining(),
        CAPACITY - 2
    );
    transaction.commit().unwrap();
    assert_eq!(left(&limiter, "alice"), CAPACITY - 2);
}

#[test]
fn a_database_without_the_table_needs_the_migration() {
    let folder = Folder::new();
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
    assert_eq!(left(&limiter, "alice"), CAPACITY);
}

#[test]
fn a_transaction_that_has_ended_takes_nothing() {
    let folder = Folder::new();
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
    assert_eq!(left(&limiter, "alice"), CAPACITY);
}

#[test]
fn transactions_and_the_stores_own_calls_never_admit_one_too_many() {
    const MANY: u64 = 400;
    let folder = Folder::new();
    let store = folder.store();
    let quota = Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(MANY).unwrap();
    let limiter = crate::support::limiter_of(&store, quota);
    let admitted: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (folder, store, limiter) = (&folder, &store, &limiter);
                scope.spawn(move || {
                    let mut connection = folder.connection();
                    let allowed = (0..MANY / 2).filter(|_| {
                        if thread % 2 == 0 {
                            return ask(limiter.limit("a", "everybody")).unwrap().allowed();
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
    assert_eq!(admitted, MANY);
}

#[test]
fn random_calls_inside_agree_with_the_memory_store() {
    let quotas = [
        Quota::token_bucket(10, seconds(10)).unwrap(),
        Quota::fixed_window(8, seconds(5)).unwrap(),
        Quota::sliding_window(10, seconds(10)).unwrap().buckets(5).unwrap(),
        Quota::sliding_log(10, seconds(10)).unwrap(),
    ];
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    for (seed, quota) in quotas.into_iter().enumerate() {
        let folder = Folder::new();
        let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
        let build = |builder: tidegate::LimiterBuilder| builder.limit("a", quota).build().unwrap();
        let limiter = build(Limiter::builder().bare_store(store.clone()));
        let memory = build(Limiter::builder().bare_store(MemoryStore::builder().clock(clock.clone()).build()));
        let (mut connection, mut random) = (folder.connection(), Random::new(seed as u64));
        for step in 0..150 {
            clock.advance(std::time::Duration::from_micros(random.below(3_000_000)));
            let (key, cost, what) = (random.below(2), 1 + random.below(5), random.below(6));
            let call = |limiter: &Limiter, inside: &dyn Fn(tidegate::Call<'_>) -> Result<Decision, Error>| {
                let call = match what {
                    0..=2 => limiter.limit("a", key),
                    3 => limiter.check("a", key),
                    4 => limiter.reserve("a", key),
                    _ => limiter.refund("a", key),
                };
                inside(call.cost(cost)).unwrap().into_parts()
            };
            // Now inside, now outside.
            let found = if random.below(3) == 0 {
                call(&limiter, &|call| ask(call))
            } else {
                let mut transaction = immediate(&mut connection);
                let inside = store.in_transaction(&mut transaction);
                let found = call(&limiter, &|call| inside.apply(call));
                transaction.commit().unwrap();
                found
            };
            assert_eq!(found, call(&memory, &|call| call.try_now()), "{quota:?}, step {step}");
        }
        run(tidegate::Store::close(&store));
    }
}
