//! Loom tests: every interleaving of two threads in the table.
//!
//! Run by `cargo xtask test` as `RUSTFLAGS="--cfg loom" cargo test --release -p tidegate --lib loom_tests`.

use std::sync::Arc;

use loom::thread;
use tidegate_core::{Cost, Decision, Op, Quota, Timestamp, days};

use super::locks::{LockedLines, LockedPair};
use super::slot::FINGERPRINT_BITS;
use super::table::Table;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const LIMIT_ONE: Op = Op::Limit(Cost::ONE);

fn model(body: impl Fn() + Sync + Send + 'static) {
    // LOOM_MAX_PREEMPTIONS bounds the explored preemptions: two in `cargo xtask test`, more in `deep`.
    loom::model(body);
}

/// Creates a table of two lines, and a quota that admits one request.
fn table() -> (Arc<Table>, Quota) {
    (Arc::new(Table::new(2, 1 << 20)), Quota::token_bucket(1, days(1)).unwrap())
}

/// Returns the hash of a key with this fingerprint that can be in line 0.
fn hash(fingerprint: u64) -> u64 {
    fingerprint << (64 - FINGERPRINT_BITS)
}

/// Returns a fingerprint whose two lines are 0 and `other`.
fn fingerprint_to(other: usize, table: &Table) -> u64 {
    (1..).find(|fingerprint| table.other_line(0, *fingerprint) == other).unwrap()
}

/// Runs `work` on the table in another thread.
fn spawn<T: 'static>(table: &Arc<Table>, work: impl FnOnce(&Table) -> T + 'static) -> thread::JoinHandle<T> {
    let table = Arc::clone(table);
    thread::spawn(move || work(&table))
}

/// Two threads request a key at once that has one unit left.
fn race(table: &Arc<Table>, key: u64, quota: Quota) {
    let other = spawn(table, move |table| take(table, key, &quota));
    let mine = take(table, key, &quota);
    assert!(mine ^ other.join().unwrap());
}

fn take(table: &Table, key: u64, quota: &Quota) -> bool {
    apply(table, key, quota, LIMIT_ONE).allowed()
}

fn apply(table: &Table, key: u64, quota: &Quota, op: Op) -> Decision {
    table.apply(key, quota, op, || NOW)
}

#[test]
fn one_of_two_threads_gets_the_only_unit_of_a_new_key() {
    model(|| {
        let (table, quota) = table();
        let key = hash(7);
        race(&table, key, quota);
    });
}

#[test]
fn one_of_two_threads_gets_the_last_unit_of_a_known_key() {
    model(|| {
        let (table, _) = table();
        let quota = Quota::token_bucket(2, days(1)).unwrap();
        let key = hash(7);
        assert!(take(&table, key, &quota));
        race(&table, key, quota);
    });
}

#[test]
fn check_reads_a_consistent_state() {
    model(|| {
        let (table, _) = table();
        let quota = Quota::token_bucket(4, days(1)).unwrap();
        let key = hash(7);
        assert!(take(&table, key, &quota));
        let other = spawn(&table, move |table| apply(table, key, &quota, Op::Limit(Cost::new(2).unwrap())).allowed());
        let check = apply(&table, key, &quota, Op::Check(Cost::ONE));
        assert!([1, 3].contains(&check.remaining()), "{check:?}");
        assert!(other.join().unwrap());
    });
}

#[test]
fn moving_key_is_never_mistaken_for_a_new_one() {
    model(|| {
        let (table, quota) = table();
        let fingerprint = fingerprint_to(1, &table);
        let key = hash(fingerprint);
        assert!(take(&table, key, &quota));
        let mover = spawn(&table, move |table| table.move_key(fingerprint, 0, 1, NOW));
        // Exhausted before, while and after it moves.
        assert!(!take(&table, key, &quota));
        assert!(mover.join().unwrap());
        let lines = LockedPair::lock(&table, table.candidates(key));
        assert!(lines.get(0).line().find(fingerprint).is_none() && lines.get(1).line().find(fingerprint).is_some());
    });
}

#[test]
fn joint_and_single_calls_share_a_key() {
    model(|| {
        let (table, quota) = table();
        let (shared, mine) = (hash(7), hash(9));
        let other = spawn(&table, move |table| take(table, shared, &quota));
        let both = [mine, shared];
        let all = table.apply_all(&both.map(|key| (table.candidates(key), &quota, Cost::ONE)), NOW).unwrap().allowed();
        assert!(all ^ other.join().unwrap());
        // A call that was denied as a whole took nothing.
        assert_eq!(take(&table, mine, &quota), !all);
    });
}

#[test]
fn overflow_state_is_stepped_by_one_thread_at_a_time() {
    model(|| {
        let (table, _) = table();
        let log = Quota::sliding_log(2, days(1)).unwrap();
        let key = hash(7);
        assert!(take(&table, key, &log));
        race(&table, key, log);
    });
}

#[test]
fn moving_record_is_never_stepped_twice() {
    model(|| {
        let (table, _) = table();
        let log = Quota::sliding_log(2, days(1)).unwrap();
        // In one shard, so that the second can take the place of the first.
        let (first, second) = (hash(7), hash(23));
        assert!(take(&table, first, &log) && take(&table, second, &log));
        let _ = apply(&table, first, &log, Op::Reset);
        let mover = spawn(&table, move |table| {
            let line = table.candidates(second).first;
            table.with_overflow_key(line, 23, |lines, found| table.move_record(lines, found));
        });
        assert!(take(&table, second, &log));
        mover.join().unwrap();
        assert!(!take(&table, second, &log));
    });
}

#[test]
fn scan_never_misses_a_moving_key() {
    model(|| {
        let (table, quota) = table();
        let fingerprint = fingerprint_to(1, &table);
        assert!(take(&table, hash(fingerprint), &quota));
        assert!(table.move_key(fingerprint, 0, 1, NOW));
        // From the line that the scan reads last to the one that it reads first.
        let mover = spawn(&table, move |table| table.move_key(fingerprint, 1, 0, NOW));
        let mut shown = Vec::new();
        let scanned = table.scan(NOW, |entry| {
            shown.push(entry.fingerprint);
            Ok::<_, ()>(())
        });
        assert!(scanned.is_ok() && mover.join().unwrap());
        assert!(!shown.is_empty() && shown.iter().all(|known| *known == fingerprint), "{shown:?}");
    });
}
