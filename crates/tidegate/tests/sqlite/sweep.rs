//! Sweeps of expired rows, a few at a time, between decisions.

use std::sync::{Arc, Condvar, Mutex};

use rusqlite::{Connection, TransactionBehavior};
use tidegate::sqlite::SqliteStore;
use tidegate::{Clock, ManualClock, Quota, Store, Timestamp, minutes, seconds};
use tidegate_servers::wait_until;

use crate::support::{TempFolder, decide, limiter_with_quota, rows, run, start_call};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// More time than a row is kept after its key has recovered.
const EXPIRY_MARGIN: std::time::Duration = minutes(2);

fn quota() -> Quota {
    Quota::token_bucket(10, seconds(10)).unwrap()
}

/// Adds `count` rows that are soon as good as new.
fn fill(folder: &TempFolder, count: u64, clock: &ManualClock) {
    let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
    let limiter = limiter_with_quota(&store, quota());
    let keys: Vec<String> = (0..count).map(|key| format!("old-{key}")).collect();
    let lock = folder.lock();
    let calls: Vec<_> = keys.iter().map(|key| start_call(limiter.limit("a", key).into_future())).collect();
    drop(lock);
    for call in calls {
        assert!(run(call).unwrap().allowed());
    }
    run(store.close());
    assert_eq!(folder.rows(), count);
}

#[test]
fn calls_sweep_expired_rows() {
    let (folder, clock) = (TempFolder::new(), ManualClock::new(START));
    fill(&folder, 2_000, &clock);
    let limiter = limiter_with_quota(&folder.store_with(SqliteStore::builder().clock(clock.clone())), quota());
    // No row has expired yet.
    for key in 0..200_u64 {
        let _ = decide(limiter.limit("a", key)).unwrap();
    }
    assert_eq!(folder.rows(), 2_200);
    clock.advance(EXPIRY_MARGIN);
    // Two for every added row, so the table shrinks and then keeps its size.
    for key in 1_000..2_500_u64 {
        let _ = decide(limiter.limit("a", key)).unwrap();
    }
    assert!(folder.rows() <= 1_500 + 128, "{} rows", folder.rows());
}

/// A program that only decides inside its transactions adds rows, too.
#[test]
fn decisions_in_transactions_trigger_sweeps() {
    let (folder, clock) = (TempFolder::new(), ManualClock::new(START));
    fill(&folder, 1_000, &clock);
    clock.advance(EXPIRY_MARGIN);
    let store = folder.store_with(SqliteStore::builder().clock(clock));
    let (limiter, mut connection) = (limiter_with_quota(&store, quota()), folder.connection());
    for key in 0..600_u64 {
        let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        assert!(store.in_transaction(&mut transaction).apply(limiter.limit("a", key)).unwrap().allowed());
        transaction.commit().unwrap();
    }
    assert!(wait_until(|| folder.rows() <= 600 + 128), "{} rows", folder.rows());
}

#[test]
fn short_lived_store_sweeps() {
    let (folder, clock) = (TempFolder::new(), ManualClock::new(START));
    fill(&folder, 100, &clock);
    clock.advance(EXPIRY_MARGIN);
    let store = folder.store_with(SqliteStore::builder().clock(clock));
    let _ = decide(limiter_with_quota(&store, quota()).limit("a", "one")).unwrap();
    run(store.close());
    assert_eq!(folder.rows(), 1);
}

#[test]
fn sweep_removes_expired_rows_only() {
    let (folder, clock) = (TempFolder::new(), ManualClock::new(START));
    fill(&folder, 1_000, &clock);
    let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
    let limiter = limiter_with_quota(&store, quota());
    assert_eq!(run(store.sweep()).unwrap(), 0, "nothing may go yet");
    // In debt for half an hour.
    let indebted = Quota::token_bucket(10, minutes(10)).unwrap().max_debt(20).unwrap();
    for _ in 0..3 {
        assert!(decide(limiter.reserve("a", "busy").cost(10).with_quota(&indebted)).unwrap().allowed());
    }
    clock.advance(EXPIRY_MARGIN);
    let before = decide(limiter.check("a", "busy").with_quota(&indebted)).unwrap().into_parts();
    assert_eq!(run(store.sweep()).unwrap(), 1_000);
    assert_eq!(folder.rows(), 1);
    assert_eq!(decide(limiter.check("a", "busy").with_quota(&indebted)).unwrap().into_parts(), before);
    // The row is swept when it is as good as new, and not before.
    clock.advance(minutes(27));
    assert_eq!(run(store.sweep()).unwrap(), 0);
    clock.advance(minutes(20));
    assert_eq!(run(store.sweep()).unwrap(), 1);
}

#[test]
fn row_is_kept_until_its_key_has_recovered() {
    let quotas = [
        quota(),
        Quota::fixed_window(10, seconds(10)).unwrap().capacity(100).unwrap(),
        Quota::sliding_window(10, seconds(10)).unwrap().buckets(5).unwrap(),
        Quota::sliding_log(10, seconds(10)).unwrap(),
        Quota::token_bucket(1, tidegate::MAX_PERIOD).unwrap().capacity(u32::MAX.into()).unwrap(),
    ];
    for quota in quotas {
        let (folder, clock) = (TempFolder::new(), ManualClock::new(START));
        let store = folder.store_with(SqliteStore::builder().clock(clock.clone()));
        let limiter = limiter_with_quota(&store, quota);
        let mut longest = 0;
        for cost in [1, 1, 3, 5] {
            clock.advance(seconds(1));
            let decision = decide(limiter.limit("a", "u1").cost(cost)).unwrap();
            let new_at = clock.now().saturating_add(decision.reset_after()).as_micros();
            let until: i64 =
                folder.connection().query_row("SELECT expires_at FROM tidegate", [], |row| row.get(0)).unwrap();
            let until = u64::try_from(until).unwrap();
            assert!(until >= new_at, "{quota:?}: kept until {until}, and new at {new_at}");
            // Half as long again, and a minute. A longer expiry from an earlier call stays.
            longest = longest.max(new_at + decision.reset_after().as_micros() as u64 / 2 + 60_000_000);
            assert!(until <= longest.min(i64::MAX as u64), "{quota:?}: kept until {until}, and new at {new_at}");
        }
    }
}

/// A clock that blocks every reader until the test admits it, and counts the rows then.
#[derive(Clone)]
struct GatedClock(Arc<(Mutex<GateState>, Condvar)>);

struct GateState {
    connection: Connection,
    now: Timestamp,
    /// Whether a reader waits.
    is_waiting: bool,
    /// The number of readers that may still read the clock.
    admitted: usize,
    /// The number of rows at each reading.
    row_counts: Vec<u64>,
}

impl GatedClock {
    fn new(folder: &TempFolder, now: Timestamp) -> Self {
        let state =
            GateState { connection: folder.connection(), now, is_waiting: false, admitted: 0, row_counts: Vec::new() };
        GatedClock(Arc::new((Mutex::new(state), Condvar::new())))
    }

    fn admit_readers(&self, count: usize) {
        self.0.0.lock().unwrap().admitted = count;
        self.0.1.notify_all();
    }

    fn wait_for_reader(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |state| !state.is_waiting).unwrap());
    }

    fn row_counts(&self) -> Vec<u64> {
        self.0.0.lock().unwrap().row_counts.clone()
    }
}

impl Clock for GatedClock {
    fn now(&self) -> Timestamp {
        let mut state = self.0.0.lock().unwrap();
        state.is_waiting = true;
        self.0.1.notify_all();
        let mut state = self.0.1.wait_while(state, |state| state.admitted == 0).unwrap();
        state.is_waiting = false;
        state.admitted -= 1;
        let rows = rows(&state.connection);
        state.row_counts.push(rows);
        state.now
    }
}

#[test]
fn sweep_lets_decisions_run_between_its_transactions() {
    let (folder, clock) = (TempFolder::new(), ManualClock::new(START));
    fill(&folder, 1_000, &clock);
    let gate = GatedClock::new(&folder, START.saturating_add(EXPIRY_MARGIN));
    let store = folder.store_with(SqliteStore::builder().clock(gate.clone()));
    let limiter = limiter_with_quota(&store, quota());
    let sweep = start_call(store.sweep());
    gate.wait_for_reader();
    let decision = start_call(limiter.limit("a", "old-7").into_future());
    // One reading for the first part of the sweep, whose second part comes after the decision.
    gate.admit_readers(2);
    assert!(run(decision).unwrap().allowed());
    assert_eq!(gate.row_counts(), [1_000, 1_000 - 128]);
    gate.admit_readers(1_000);
    run(sweep).unwrap();
    let row_counts = gate.row_counts();
    assert!(row_counts.windows(2).all(|pair| pair[0] - pair[1] <= 128), "{row_counts:?}");
    assert_eq!(folder.rows(), 1);
}

#[test]
fn busy_row_rarely_moves_in_the_index() {
    let (folder, clock) = (TempFolder::new(), ManualClock::new(START));
    let limiter = limiter_with_quota(&folder.store_with(SqliteStore::builder().clock(clock.clone())), quota());
    let connection = folder.connection();
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..100 {
        assert!(decide(limiter.limit("a", "u1")).unwrap().allowed());
        let place: i64 = connection.query_row("SELECT expires_at FROM tidegate", [], |row| row.get(0)).unwrap();
        places.insert(place);
        clock.advance(seconds(1));
    }
    assert!(places.len() <= 3, "{places:?}");
}
