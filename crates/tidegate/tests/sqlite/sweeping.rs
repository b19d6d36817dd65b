//! Rows that are as good as new go, a few at a time, and nobody notices.

use std::sync::{Arc, Condvar, Mutex};

use rusqlite::{Connection, TransactionBehavior};
use tidegate::sqlite::SqliteStore;
use tidegate::{Clock, ManualClock, Quota, Store, Timestamp, minutes, seconds};
use tidegate_servers::wait_until;

use crate::support::{Folder, ask, limiter_of, rows, run, start};

const BEGINNING: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// More than a row is kept longer than it has to be.
const LONG: std::time::Duration = minutes(2);

fn quota() -> Quota {
    Quota::token_bucket(10, seconds(10)).unwrap()
}

/// Adds so many rows, which are as good as new in a moment.
fn fill(folder: &Folder, count: u64, clock: &ManualClock) {
    let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
    let limiter = limiter_of(&store, quota());
    let keys: Vec<String> = (0..count).map(|key| format!("old-{key}")).collect();
    let lock = folder.lock();
    let calls: Vec<_> = keys.iter().map(|key| start(limiter.limit("a", key).into_future())).collect();
    drop(lock);
    for call in calls {
        assert!(run(call).unwrap().allowed());
    }
    run(store.close());
    assert_eq!(folder.rows(), count);
}

#[test]
fn the_calls_sweep_what_is_as_good_as_new() {
    let (folder, clock) = (Folder::new(), ManualClock::new(BEGINNING));
    fill(&folder, 2_000, &clock);
    let limiter = limiter_of(&folder.store_with(SqliteStore::builder().clock(clock.clone())), quota());
    // Nothing may go yet.
    for key in 0..200_u64 {
        let _ = ask(limiter.limit("a", key)).unwrap();
    }
    assert_eq!(folder.rows(), 2_200);
    clock.advance(LONG);
    // Two for every one that is added, so the table becomes smaller and then stays so.
    for key in 1_000..2_500_u64 {
        let _ = ask(limiter.limit("a", key)).unwrap();
    }
    assert!(folder.rows() <= 1_500 + 128, "{} rows", folder.rows());
}

/// Who asks inside of transactions only adds rows as well.
#[test]
fn decisions_in_transactions_are_swept_too() {
    let (folder, clock) = (Folder::new(), ManualClock::new(BEGINNING));
    fill(&folder, 1_000, &clock);
    clock.advance(LONG);
    let store = folder.store_with(SqliteStore::builder().clock(clock));
    let (limiter, mut connection) = (limiter_of(&store, quota()), folder.connection());
    for key in 0..600_u64 {
        let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        assert!(store.in_transaction(&mut transaction).apply(limiter.limit("a", key)).unwrap().allowed());
        transaction.commit().unwrap();
    }
    assert!(wait_until(|| folder.rows() <= 600 + 128), "{} rows", folder.rows());
}

#[test]
fn a_program_that_runs_for_a_moment_only_sweeps_too() {
    let (folder, clock) = (Folder::new(), ManualClock::new(BEGINNING));
    fill(&folder, 100, &clock);
    clock.advance(LONG);
    let store = folder.store_with(SqliteStore::builder().clock(clock));
    let _ = ask(limiter_of(&store, quota()).limit("a", "one")).unwrap();
    run(store.close());
    assert_eq!(folder.rows(), 1);
}

#[test]
fn a_sweep_takes_all_that_may_go_and_nothing_else() {
    let (folder, clock) = (Folder::new(), ManualClock::new(BEGINNING));
    fill(&folder, 1_000, &clock);
    let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
    let limiter = limiter_of(&store, quota());
    assert_eq!(run(store.sweep()).unwrap(), 0, "nothing may go yet");
    // In debt for half an hour.
    let indebted = Quota::token_bucket(10, minutes(10)).unwrap().max_debt(20).unwrap();
    for _ in 0..3 {
        assert!(ask(limiter.reserve("a", "busy").cost(10).with_quota(&indebted)).unwrap().allowed());
    }
    clock.advance(LONG);
    let before = ask(limiter.check("a", "busy").with_quota(&indebted)).unwrap().into_parts();
    assert_eq!(run(store.sweep()).unwrap(), 1_000);
    assert_eq!(folder.rows(), 1);
    assert_eq!(ask(limiter.check("a", "busy").with_quota(&indebted)).unwrap().into_parts(), before);
    // It goes when it is as good as new, and not before.
    clock.advance(minutes(27));
    assert_eq!(run(store.sweep()).unwrap(), 0);
    clock.advance(minutes(20));
    assert_eq!(run(store.sweep()).unwrap(), 1);
}

#[test]
fn a_row_stays_until_its_key_is_as_good_as_new() {
    let quotas = [
        quota(),
        Quota::fixed_window(10, seconds(10)).unwrap().capacity(100).unwrap(),
        Quota::sliding_window(10, seconds(10)).unwrap().buckets(5).unwrap(),
        Quota::sliding_log(10, seconds(10)).unwrap(),
        Quota::token_bucket(1, tidegate::MAX_PERIOD).unwrap().capacity(u32::MAX.into()).unwrap(),
    ];
    for quota in quotas {
        let (folder, clock) = (Folder::new(), ManualClock::new(BEGINNING));
        let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
        let limiter = limiter_of(&store, quota);
        let mut longest = 0;
        for cost in [1, 1, 3, 5] {
            clock.advance(seconds(1));
            let decision = ask(limiter.limit("a", "u1").cost(cost)).unwrap();
            let new_at = clock.now().saturating_add(decision.reset_after()).as_micros();
            let until: i64 =
                folder.connection().query_row("SELECT expires_at FROM tidegate", [], |row| row.get(0)).unwrap();
            let until = u64::try_from(until).unwrap();
            assert!(until >= new_at, "{quota:?}: kept until {until}, and new at {new_at}");
            // Half as long again, and a minute; what is kept longer for an earlier call stays so.
            longest = longest.max(new_at + decision.reset_after().as_micros() as u64 / 2 + 60_000_000);
            assert!(until <= longest.min(i64::MAX as u64), "{quota:?}: kept until {until}, and new at {new_at}");
        }
    }
}

/// A clock whose every reader has to be let through, and which counts the rows then.
#[derive(Clone)]
struct Gate(Arc<(Mutex<Passing>, Condvar)>);

struct Passing {
    connection: Connection,
    now: Timestamp,
    /// Somebody waits.
    waits: bool,
    /// How many may pass.
    passes: usize,
    /// The rows when each of them did.
    seen: Vec<u64>,
}

impl Gate {
    fn new(folder: &Folder, now: Timestamp) -> Self {
        let passing = Passing { connection: folder.connection(), now, waits: false, passes: 0, seen: Vec::new() };
        Gate(Arc::new((Mutex::new(passing), Condvar::new())))
    }

    fn let_through(&self, passes: usize) {
        self.0.0.lock().unwrap().passes = passes;
        self.0.1.notify_all();
    }

    fn wait_for_somebody(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |passing| !passing.waits).unwrap());
    }

    fn seen(&self) -> Vec<u64> {
        self.0.0.lock().unwrap().seen.clone()
    }
}

impl Clock for Gate {
    fn now(&self) -> Timestamp {
        let mut passing = self.0.0.lock().unwrap();
        passing.waits = true;
        self.0.1.notify_all();
        let mut passing = self.0.1.wait_while(passing, |passing| passing.passes == 0).unwrap();
        passing.waits = false;
        passing.passes -= 1;
        let rows = rows(&passing.connection);
        passing.seen.push(rows);
        passing.now
    }
}

#[test]
fn a_sweep_is_made_of_small_transactions_with_decisions_in_between() {
    let (folder, clock) = (Folder::new(), ManualClock::new(BEGINNING));
    fill(&folder, 1_000, &clock);
    let gate = Gate::new(&folder, BEGINNING.saturating_add(LONG));
    let store = folder.store_with(SqliteStore::builder().clock(gate.clone()));
    let limiter = limiter_of(&store, quota());
    let sweep = start(store.sweep());
    gate.wait_for_somebody();
    let decision = start(limiter.limit("a", "old-7").into_future());
    // One for the first part of the sweep, whose second part comes after the decision.
    gate.let_through(2);
    assert!(run(decision).unwrap().allowed());
    assert_eq!(gate.seen(), [1_000, 1_000 - 128]);
    gate.let_through(1_000);
    run(sweep).unwrap();
    let seen = gate.seen();
    assert!(seen.windows(2).all(|pair| pair[0] - pair[1] <= 128), "{seen:?}");
    assert_eq!(folder.rows(), 1);
}

#[test]
fn a_row_that_is_used_all_the_time_rarely_changes_its_place_in_the_index() {
    let (folder, clock) = (Folder::new(), ManualClock::new(BEGINNING));
    let limiter = limiter_of(&folder.store_with(SqliteStore::builder().clock(clock.clone())), quota());
    let connection = folder.connection();
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..100 {
        assert!(ask(limiter.limit("a", "u1")).unwrap().allowed());
        let place: i64 = connection.query_row("SELECT expires_at FROM tidegate", [], |row| row.get(0)).unwrap();
        places.insert(place);
        clock.advance(seconds(1));
    }
    assert!(places.len() <= 3, "{places:?}");
}
