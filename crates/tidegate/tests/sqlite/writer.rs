//! The thread that writes, and the one that looks.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::Connection;
use tidegate::sqlite::SqliteStore;
use tidegate::{
    Clock, Decision, Error, Limiter, MAX_PERIOD, ManualClock, Quota, Store, StoreErrorKind, SystemClock, Timestamp,
    millis, seconds,
};

use crate::support::{CAPACITY, Folder, Started, ask, left, limiter, limiter_of, patient, run, start, try_start};

/// A clock that counts how often it is read, which is once for every transaction.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl Clock for Counting {
    fn now(&self) -> Timestamp {
        self.0.fetch_add(1, Ordering::SeqCst);
        SystemClock.now()
    }
}

#[test]
fn callers_share_a_commit() {
    let (folder, clock) = (Folder::new(), Counting::default());
    let limiter = limiter(&folder.store_with(patient().clock(clock.clone())));
    let lock = folder.lock();
    let keys: Vec<String> = (0..200).map(|key| key.to_string()).collect();
    let calls: Vec<_> = keys.iter().map(|key| start(limiter.limit("a", key).into_future())).collect();
    drop(lock);
    for call in calls {
        assert!(run(call).unwrap().allowed());
    }
    // And some for the rows that are looked for because there are new ones.
    assert!(clock.0.load(Ordering::SeqCst) <= 10, "{} transactions", clock.0.load(Ordering::SeqCst));
    assert_eq!(folder.rows(), 200);
}

#[test]
fn the_log_is_brought_into_the_file_by_and_by() {
    let folder = Folder::new();
    let limiter = limiter_of(&folder.store(), Quota::token_bucket(1_000_000, seconds(1)).unwrap());
    for _ in 0..4_000 {
        assert!(ask(limiter.limit("a", "alice")).unwrap().allowed());
    }
    // Each has written a page of 4 KiB at least, and a thousand of them are enough.
    let log = folder.log_bytes();
    assert!(log < 8_000_000, "{log} bytes");
}

#[test]
fn a_call_that_is_given_up_spends_nothing() {
    let folder = Folder::new();
    let limiter = limiter(&folder.store());
    let lock = folder.lock();
    // This first: the thread may be about to write for a call that it has taken alone, and all or nothing is never that.
    let all = start(limiter.limit_all([limiter.limit("a", "alice"), limiter.limit("a", "bob")]));
    let given_up: Vec<_> = (0..3).map(|_| start(limiter.limit("a", "alice").into_future())).collect();
    let waited_for = start(limiter.limit("a", "alice").into_future());
    drop(given_up);
    drop(all);
    drop(lock);
    assert_eq!(run(waited_for).unwrap().remaining(), CAPACITY - 1);
    assert_eq!([left(&limiter, "alice"), left(&limiter, "bob")], [CAPACITY - 1, CAPACITY]);
}

/// With those that stand in line `already`, one call more than there is room for: so the thread has taken the first, and
/// waits for the lock. It may have taken that one alone, and then there will never be room for another.
fn more_than_can_wait(limiter: &Limiter, already: usize) -> Vec<Started<'_, Result<Decision, Error>>> {
    let mut calls = Vec::new();
    run(async {
        while already + calls.len() <= 8_192 {
            match try_start(limiter.limit("a", "alice").into_future()) {
                Ok(call) => calls.push(call),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    calls
}

#[test]
fn the_time_is_read_when_the_lock_is_there() {
    let (folder, clock) = (Folder::new(), ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let store = folder.store_with(patient().clock(clock.clone()));
    let limiter = limiter_of(&store, Quota::token_bucket(10, seconds(10)).unwrap());
    assert!(ask(limiter.limit("a", "bob").cost(10)).unwrap().allowed());
    clock.advance(seconds(1));
    let lock = folder.lock();
    // All or nothing takes a transaction, and with it the lock.
    let first = start(limiter.limit_all([limiter.limit("a", "bob")]));
    let others = more_than_can_wait(&limiter, 1);
    clock.advance(seconds(4));
    drop(lock);
    let decision = run(first).unwrap().into_decisions()[0];
    assert_eq!((decision.allowed(), decision.remaining()), (true, 4), "five seconds have brought five");
    drop(others);
}

#[test]
fn nobody_waits_for_a_lock_that_nobody_needs_any_more() {
    let folder = Folder::new();
    let store = folder.store();
    let limiter = limiter(&store);
    let lock = folder.lock();
    drop(more_than_can_wait(&limiter, 0));
    // Closing waits for the thread, which would otherwise try for five minutes.
    run(async { tokio::time::timeout(seconds(60), store.close()).await }).expect("the thread stops waiting");
    drop(lock);
}

#[test]
fn a_full_line_is_an_error_at_once_and_goes_on() {
    let folder = Folder::new();
    let limiter = limiter(&folder.store());
    let lock = folder.lock();
    let keys: Vec<String> = (0..20_000).map(|key| key.to_string()).collect();
    let mut calls = Vec::new();
    let refused =
        keys.iter().find_map(|key| try_start(limiter.limit("a", key).into_future()).map(|call| calls.push(call)).err());
    let Some(Err(Error::Store(error))) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
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
fn a_look_waits_for_nobody_who_writes() {
    let folder = Folder::new();
    let limiter = limiter(&folder.store());
    let _ = ask(limiter.limit("a", "alice")).unwrap();
    let lock = folder.lock();
    let waiting = start(limiter.limit("a", "alice").into_future());
    assert_eq!(left(&limiter, "alice"), CAPACITY - 1);
    drop(lock);
    let _ = run(waiting).unwrap();
    // And it sees what was answered before it.
    assert_eq!(left(&limiter, "alice"), CAPACITY - 2);
}

#[test]
fn a_lock_that_stays_is_an_error_after_the_busy_timeout() {
    let folder = Folder::new();
    let limiter = limiter(&folder.store_with(SqliteStore::builder().busy_timeout(millis(50))));
    let lock = folder.lock();
    let Error::Store(error) = ask(limiter.limit("a", "alice")).unwrap_err() else { panic!() };
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("busy timeout") && error.to_string().contains("limits.db"), "{error}");
    drop(lock);
    assert_eq!(ask(limiter.limit("a", "alice")).unwrap().remaining(), CAPACITY - 1);
}

#[test]
fn opening_waits_for_a_lock_no_longer_than_the_busy_timeout() {
    let folder = Folder::new();
    let connection = folder.connection();
    connection.execute_batch("CREATE TABLE users (name TEXT); BEGIN EXCLUSIVE").unwrap();
    let builder = SqliteStore::builder().busy_timeout(millis(50));
    let error = builder.clone().open(folder.file()).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    connection.execute_batch("COMMIT").unwrap();
    builder.open(folder.file()).unwrap();
}

#[test]
fn a_look_a_denial_and_a_refund_of_nothing_write_nothing() {
    let folder = Folder::new();
    let limiter = limiter(&folder.store());
    let _ = ask(limiter.limit("a", "alice").cost(CAPACITY)).unwrap();
    let watcher = folder.connection();
    let version = || -> i64 { watcher.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap() };
    let before = version();
    let _ = ask(limiter.check("a", "alice")).unwrap();
    let _ = ask(limiter.check("a", "bob")).unwrap();
    assert!(!ask(limiter.limit("a", "alice")).unwrap().allowed());
    let other = Quota::sliding_window(CAPACITY, MAX_PERIOD).unwrap();
    assert!(!ask(limiter.limit("a", "alice").with_quota(&other)).unwrap().allowed());
    let _ = ask(limiter.limit("a", "bob").cost(CAPACITY + 1)).unwrap();
    let _ = ask(limiter.refund("a", "bob")).unwrap();
    let _ = ask(limiter.reset("a", "bob")).unwrap();
    assert!(!run(limiter.limit_all([limiter.limit("a", "alice"), limiter.limit("a", "bob")])).unwrap().allowed());
    assert_eq!(version(), before);
    let _ = ask(limiter.limit("a", "bob")).unwrap();
    assert_ne!(version(), before);
}

#[test]
fn what_waits_is_answered_before_a_store_is_closed() {
    let folder = Folder::new();
    let store = folder.store();
    let limiter = limiter(&store);
    let lock = folder.lock();
    let waiting = start(limiter.limit("a", "alice").into_future());
    let closing = start(store.close());
    for call in [limiter.limit("a", "alice"), limiter.check("a", "alice")] {
        let Error::Store(error) = ask(call).unwrap_err() else { panic!() };
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        assert!(error.to_string().contains("sqlite: the store is closed"), "{error}");
    }
    drop(lock);
    assert!(run(waiting).unwrap().allowed());
    run(closing);
    // Once more, by whoever else has a clone.
    run(store.clone().close());
    assert_eq!(left(&self::limiter(&folder.store()), "alice"), CAPACITY - 1);
}

#[test]
fn closing_does_not_wait_for_a_lock_more_than_once() {
    let folder = Folder::new();
    let store = folder.store_with(SqliteStore::builder().busy_timeout(seconds(2)));
    let limiter = limiter(&store);
    let _lock = folder.lock();
    let keys: Vec<String> = (0..5_000).map(|key| key.to_string()).collect();
    let calls: Vec<_> = keys.iter().map(|key| start(limiter.limit("a", key).into_future())).collect();
    // Twenty batches of calls would be forty seconds.
    run(async { tokio::time::timeout(seconds(20), store.close()).await }).expect("it is closed");
    for call in calls {
        assert!(run(call).unwrap_err().is_retryable());
    }
}

#[test]
fn the_threads_end_with_the_last_clone() {
    let folder = Folder::new();
    let store = folder.store();
    let limiter = limiter(&store);
    drop(store);
    let _ = ask(limiter.limit("a", "alice")).unwrap();
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

/// A clock that breaks on command.
#[derive(Clone, Default)]
struct Breaking(Arc<AtomicBool>);

impl Clock for Breaking {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::SeqCst), "this clock is broken, as it should be");
        SystemClock.now()
    }
}

#[test]
fn a_thread_that_panics_leaves_nobody_waiting() {
    let (folder, clock) = (Folder::new(), Breaking::default());
    let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
    let limiter = limiter(&store);
    // The first adds a row, after which the thread reads the clock once more.
    for _ in 0..2 {
        let _ = ask(limiter.limit("a", "alice")).unwrap();
    }
    clock.0.store(true, Ordering::SeqCst);
    let lock = folder.lock();
    let calls: Vec<_> = (0..600).map(|_| start(limiter.limit("a", "alice").into_future())).collect();
    drop(lock);
    for call in calls {
        assert!(run(call).unwrap_err().is_retryable());
    }
    run(store.close());
    assert_eq!(left(&self::limiter(&folder.store()), "alice"), CAPACITY - 2);
}

#[test]
fn a_second_store_in_the_same_process_counts_the_same() {
    let folder = Folder::new();
    let [one, two] = [limiter(&folder.store()), limiter(&folder.store())];
    for spent in 0..CAPACITY {
        assert!(ask(if spent % 2 == 0 { &one } else { &two }.limit("a", "alice")).unwrap().allowed());
    }
    assert!(!ask(one.limit("a", "alice")).unwrap().allowed());
    assert!(!ask(two.limit("a", "alice")).unwrap().allowed());
}

#[test]
fn keys_can_be_read_or_hashed() {
    let names = |path: PathBuf| -> Vec<Vec<u8>> {
        let connection = Connection::open(path).unwrap();
        let mut select = connection.prepare("SELECT key FROM tidegate").unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for secret in [None, Some("a secret")] {
        let folder = Folder::new();
        let builder = SqliteStore::builder();
        let builder = secret.map_or(builder.clone(), |secret| builder.hash_keys(secret));
        let _ = ask(limiter(&folder.store_with(builder)).limit("a", "alice@example.org")).unwrap();
        let names = names(folder.file());
        assert_eq!(names.len(), 1);
        let readable = names[0] == b"shop|a|alice@example.org";
        assert_eq!(readable, secret.is_none());
        assert!(readable || !String::from_utf8_lossy(&names[0]).contains("alice"));
    }
}

#[test]
fn stores_that_come_and_go_disturb_nobody() {
    const TIMES: u64 = 25;
    let folder = Folder::new();
    let quota = Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(1_000).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..TIMES {
                    let store = folder.store();
                    assert!(ask(limiter_of(&store, quota).limit("a", "everybody")).unwrap().allowed());
                    run(store.close());
                }
            });
        }
    });
    assert_eq!(left(&limiter_of(&folder.store(), quota), "everybody"), 1_000 - 4 * TIMES);
    assert_eq!(folder.integrity(), "ok");
}
