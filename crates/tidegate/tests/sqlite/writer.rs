//! The writing thread and the reading thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::Connection;
use tidegate::sqlite::SqliteStore;
use tidegate::{
    Clock, Decision, Error, Limiter, MAX_PERIOD, ManualClock, Quota, Store, StoreErrorKind, SystemClock, Timestamp,
    millis, seconds,
};

use crate::support::{
    CAPACITY, PendingCall, TempFolder, decide, limiter, limiter_with_quota, patient_builder, remaining, run,
    start_call, try_start_call,
};

/// A clock that counts its readings, one for every transaction.
#[derive(Clone, Default)]
struct CountingClock(Arc<AtomicU64>);

impl Clock for CountingClock {
    fn now(&self) -> Timestamp {
        self.0.fetch_add(1, Ordering::SeqCst);
        SystemClock.now()
    }
}

#[test]
fn concurrent_calls_share_a_commit() {
    let (folder, clock) = (TempFolder::new(), CountingClock::default());
    let limiter = limiter(&folder.store_with(patient_builder().clock(clock.clone())));
    let lock = folder.lock();
    let keys: Vec<String> = (0..200).map(|key| key.to_string()).collect();
    let calls: Vec<_> = keys.iter().map(|key| start_call(limiter.limit("a", key).into_future())).collect();
    drop(lock);
    for call in calls {
        assert!(run(call).unwrap().allowed());
    }
    // And some transactions for sweeps, because there are new rows.
    assert!(clock.0.load(Ordering::SeqCst) <= 10, "{} transactions", clock.0.load(Ordering::SeqCst));
    assert_eq!(folder.rows(), 200);
}

#[test]
fn log_is_checkpointed_when_it_is_long() {
    let folder = TempFolder::new();
    let limiter = limiter_with_quota(&folder.store(), Quota::token_bucket(1_000_000, seconds(1)).unwrap());
    for _ in 0..4_000 {
        assert!(decide(limiter.limit("a", "alice")).unwrap().allowed());
    }
    // Each call has written at least a page of 4 KiB, and a thousand pages trigger a checkpoint.
    let log = folder.log_bytes();
    assert!(log < 8_000_000, "{log} bytes");
}

#[test]
fn abandoned_call_spends_nothing() {
    let folder = TempFolder::new();
    let limiter = limiter(&folder.store());
    let lock = folder.lock();
    // This call comes first: the thread may be writing for a call that it has taken alone, which a joint call never is.
    let all = start_call(limiter.limit_all([limiter.limit("a", "alice"), limiter.limit("a", "bob")]));
    let given_up: Vec<_> = (0..3).map(|_| start_call(limiter.limit("a", "alice").into_future())).collect();
    let waited_for = start_call(limiter.limit("a", "alice").into_future());
    drop(given_up);
    drop(all);
    drop(lock);
    assert_eq!(run(waited_for).unwrap().remaining(), CAPACITY - 1);
    assert_eq!([remaining(&limiter, "alice"), remaining(&limiter, "bob")], [CAPACITY - 1, CAPACITY]);
}

/// Adds calls to the `waiting` ones until there is one more than the queue holds, so the thread has taken the first and waits
/// for the lock. It may have taken that one alone, and then the queue has no room for another.
fn fill_queue(limiter: &Limiter, waiting: usize) -> Vec<PendingCall<'_, Result<Decision, Error>>> {
    let mut calls = Vec::new();
    run(async {
        while waiting + calls.len() <= 8_192 {
            match try_start_call(limiter.limit("a", "alice").into_future()) {
                Ok(call) => calls.push(call),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    calls
}

#[test]
fn clock_is_read_after_the_lock_is_acquired() {
    let (folder, clock) = (TempFolder::new(), ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let store = folder.store_with(patient_builder().clock(clock.clone()));
    let limiter = limiter_with_quota(&store, Quota::token_bucket(10, seconds(10)).unwrap());
    assert!(decide(limiter.limit("a", "bob").cost(10)).unwrap().allowed());
    clock.advance(seconds(1));
    let lock = folder.lock();
    // All or nothing takes a transaction, and with it the lock.
    let first = start_call(limiter.limit_all([limiter.limit("a", "bob")]));
    let others = fill_queue(&limiter, 1);
    clock.advance(seconds(4));
    drop(lock);
    let decision = run(first).unwrap().into_decisions()[0];
    assert_eq!((decision.allowed(), decision.remaining()), (true, 4), "five seconds have brought five");
    drop(others);
}

#[test]
fn lock_wait_ends_when_all_calls_are_abandoned() {
    let folder = TempFolder::new();
    let store = folder.store();
    let limiter = limiter(&store);
    let lock = folder.lock();
    drop(fill_queue(&limiter, 0));
    // Closing waits for the thread, which would otherwise try for five minutes.
    run(async { tokio::time::timeout(seconds(60), store.close()).await }).expect("the thread stops waiting");
    drop(lock);
}

#[test]
fn full_queue_is_an_immediate_error_and_recovers() {
    let folder = TempFolder::new();
    let limiter = limiter(&folder.store());
    let lock = folder.lock();
    let keys: Vec<String> = (0..20_000).map(|key| key.to_string()).collect();
    let mut calls = Vec::new();
    let refused = keys
        .iter()
        .find_map(|key| try_start_call(limiter.limit("a", key).into_future()).map(|call| calls.push(call)).err());
    let Some(Err(Error::Store(error))) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), StoreErrorKind::Overloaded);
    assert!(error.to_string().contains("wait for the file already"), "{error}");
    assert!(calls.len() >= 8_192, "{} calls", calls.len());
    drop(lock);
    let admitted = calls.len() as u64;
    for call in calls {
        assert!(run(call).unwrap().allowed());
    }
    assert_eq!(folder.rows(), admitted);
}

#[test]
fn check_does_not_wait_for_writes() {
    let folder = TempFolder::new();
    let limiter = limiter(&folder.store());
    let _ = decide(limiter.limit("a", "alice")).unwrap();
    let lock = folder.lock();
    let waiting = start_call(limiter.limit("a", "alice").into_future());
    assert_eq!(remaining(&limiter, "alice"), CAPACITY - 1);
    drop(lock);
    let _ = run(waiting).unwrap();
    // And it sees what was answered before it.
    assert_eq!(remaining(&limiter, "alice"), CAPACITY - 2);
}

#[test]
fn long_lock_is_an_error_after_the_busy_timeout() {
    let folder = TempFolder::new();
    let limiter = limiter(&folder.store_with(SqliteStore::builder().busy_timeout(millis(50))));
    let lock = folder.lock();
    let Error::Store(error) = decide(limiter.limit("a", "alice")).unwrap_err() else { panic!() };
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("busy timeout") && error.to_string().contains("limits.db"), "{error}");
    drop(lock);
    assert_eq!(decide(limiter.limit("a", "alice")).unwrap().remaining(), CAPACITY - 1);
}

#[test]
fn open_waits_for_a_lock_no_longer_than_the_busy_timeout() {
    let folder = TempFolder::new();
    let connection = folder.connection();
    connection.execute_batch("CREATE TABLE users (name TEXT); BEGIN EXCLUSIVE").unwrap();
    let builder = SqliteStore::builder().busy_timeout(millis(50));
    let error = builder.clone().open(folder.file()).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    connection.execute_batch("COMMIT").unwrap();
    builder.open(folder.file()).unwrap();
}

#[test]
fn check_denial_and_empty_refund_write_nothing() {
    let folder = TempFolder::new();
    let limiter = limiter(&folder.store());
    let _ = decide(limiter.limit("a", "alice").cost(CAPACITY)).unwrap();
    let watcher = folder.connection();
    let version = || -> i64 { watcher.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap() };
    let before = version();
    let _ = decide(limiter.check("a", "alice")).unwrap();
    let _ = decide(limiter.check("a", "bob")).unwrap();
    assert!(!decide(limiter.limit("a", "alice")).unwrap().allowed());
    let other = Quota::sliding_window(CAPACITY, MAX_PERIOD).unwrap();
    assert!(!decide(limiter.limit("a", "alice").with_quota(&other)).unwrap().allowed());
    let _ = decide(limiter.limit("a", "bob").cost(CAPACITY + 1)).unwrap();
    let _ = decide(limiter.refund("a", "bob")).unwrap();
    let _ = decide(limiter.reset("a", "bob")).unwrap();
    assert!(!run(limiter.limit_all([limiter.limit("a", "alice"), limiter.limit("a", "bob")])).unwrap().allowed());
    assert_eq!(version(), before);
    let _ = decide(limiter.limit("a", "bob")).unwrap();
    assert_ne!(version(), before);
}

#[test]
fn waiting_calls_are_answered_before_close_ends() {
    let folder = TempFolder::new();
    let store = folder.store();
    let limiter = limiter(&store);
    let lock = folder.lock();
    let waiting = start_call(limiter.limit("a", "alice").into_future());
    let closing = start_call(store.close());
    for call in [limiter.limit("a", "alice"), limiter.check("a", "alice")] {
        let Error::Store(error) = decide(call).unwrap_err() else { panic!() };
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        assert!(error.to_string().contains("sqlite: the store is closed"), "{error}");
    }
    drop(lock);
    assert!(run(waiting).unwrap().allowed());
    run(closing);
    // A clone closes the store once more.
    run(store.clone().close());
    assert_eq!(remaining(&self::limiter(&folder.store()), "alice"), CAPACITY - 1);
}

#[test]
fn close_waits_for_a_lock_only_once() {
    let folder = TempFolder::new();
    let store = folder.store_with(SqliteStore::builder().busy_timeout(seconds(2)));
    let limiter = limiter(&store);
    let _lock = folder.lock();
    let keys: Vec<String> = (0..5_000).map(|key| key.to_string()).collect();
    let calls: Vec<_> = keys.iter().map(|key| start_call(limiter.limit("a", key).into_future())).collect();
    // Twenty batches of calls would be forty seconds.
    run(async { tokio::time::timeout(seconds(20), store.close()).await }).expect("it is closed");
    for call in calls {
        assert!(run(call).unwrap_err().is_retryable());
    }
}

#[test]
fn threads_end_with_the_last_clone() {
    let folder = TempFolder::new();
    let store = folder.store();
    let limiter = limiter(&store);
    drop(store);
    let _ = decide(limiter.limit("a", "alice")).unwrap();
    drop(limiter);
    // The last connection to close removes the log.
    let ended = run(async {
        for _ in 0..1_000 {
            if folder.files() == ["limits.db"] {
                return true;
            }
            tokio::time::sleep(millis(10)).await;
        }
        false
    });
    assert!(ended, "{:?}", folder.files());
}

/// A clock that panics on command.
#[derive(Clone, Default)]
struct PanickingClock(Arc<AtomicBool>);

impl Clock for PanickingClock {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::SeqCst), "this clock is broken, as it should be");
        SystemClock.now()
    }
}

#[test]
fn panic_of_the_thread_fails_waiting_calls() {
    let (folder, clock) = (TempFolder::new(), PanickingClock::default());
    let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
    let limiter = limiter(&store);
    // The first adds a row, after which the thread reads the clock once more.
    for _ in 0..2 {
        let _ = decide(limiter.limit("a", "alice")).unwrap();
    }
    clock.0.store(true, Ordering::SeqCst);
    let lock = folder.lock();
    let calls: Vec<_> = (0..600).map(|_| start_call(limiter.limit("a", "alice").into_future())).collect();
    drop(lock);
    for call in calls {
        assert!(run(call).unwrap_err().is_retryable());
    }
    run(store.close());
    assert_eq!(remaining(&self::limiter(&folder.store()), "alice"), CAPACITY - 2);
}

#[test]
fn two_stores_on_one_file_share_the_quota() {
    let folder = TempFolder::new();
    let [one, two] = [limiter(&folder.store()), limiter(&folder.store())];
    for spent in 0..CAPACITY {
        assert!(decide(if spent % 2 == 0 { &one } else { &two }.limit("a", "alice")).unwrap().allowed());
    }
    assert!(!decide(one.limit("a", "alice")).unwrap().allowed());
    assert!(!decide(two.limit("a", "alice")).unwrap().allowed());
}

#[test]
fn keys_are_readable_unless_hashed() {
    let names = |path: PathBuf| -> Vec<Vec<u8>> {
        let connection = Connection::open(path).unwrap();
        let mut select = connection.prepare("SELECT key FROM tidegate").unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for secret in [None, Some("a secret")] {
        let folder = TempFolder::new();
        let builder = SqliteStore::builder();
        let builder = secret.map_or(builder.clone(), |secret| builder.hash_keys(secret));
        let _ = decide(limiter(&folder.store_with(builder)).limit("a", "alice@example.org")).unwrap();
        let names = names(folder.file());
        assert_eq!(names.len(), 1);
        let readable = names[0] == b"shop|a|alice@example.org";
        assert_eq!(readable, secret.is_none());
        assert!(readable || !String::from_utf8_lossy(&names[0]).contains("alice"));
    }
}

#[test]
fn opening_and_closing_stores_loses_nothing() {
    const ROUNDS: u64 = 25;
    let folder = TempFolder::new();
    let quota = Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(1_000).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let store = folder.store();
                    assert!(decide(limiter_with_quota(&store, quota).limit("a", "everybody")).unwrap().allowed());
                    run(store.close());
                }
            });
        }
    });
    assert_eq!(remaining(&limiter_with_quota(&folder.store(), quota), "everybody"), 1_000 - 4 * ROUNDS);
    assert_eq!(folder.integrity(), "ok");
}
