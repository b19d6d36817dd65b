//! Every order in which two threads can meet in the table, explored by loom.
//!
//! Run by `cargo xtask test` as `RUSTFLAGS="--cfg loom" cargo test --release -p tidegate --lib loom_tests`.

use std::sync::Arc;

use loom::thread;
use tidegate_core::{Cost, Decision, Op, Quota, Timestamp, days};

use super::locks::{LockedLines, LockedPair};
use super::slot::FINGERPRINT_BITS;
use super::table::Table;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const TAKE: Op = Op::Limit(Cost::ONE);

fn model(body: impl Fn() + Sync + Send + 'static) {
    // How many preemptions are explored is LOOM_MAX_PREEMPTIONS: two in `cargo xtask test`, more in `deep`.
    loom::model(body);
}

/// A table of two lines; the quota lets one through.
fn table() -> (Arc<Table>, Quota) {
    (Arc::new(Table::new(2, 1 << 20)), Quota::token_bucket(1, days(1)).unwrap())
}

/// The hash of a key with this fingerprint that can be in line 0.
fn hash(fingerprint: u64) -> u64 {
    fingerprint << (64 - FINGERPRINT_BITS)
}

/// A fingerprint whose two lines are 0 and `other`.
fn fingerprint_to(other: usize, table: &Table) -> u64 {
    (1..).find(|fingerprint| table.other(0, *fingerprint) == other).unwrap()
}

/// What another thread does to the table meanwhile.
fn meanwhile<T: 'static>(table: &Arc<Table>, work: impl FnOnce(&Table) -> T + 'static) -> thread::JoinHandle<T> {
    let table = Arc::clone(table);
    thread::spawn(move || work(&table))
}

/// Two threads ask for the same key at once, of which there is one unit left.
fn race(table: &Arc<Table>, key: u64, quota: Quota) {
    let other = meanwhile(table, move |table| take(table, key, &quota));
    let mine = take(table, key, &quota);
    assert!(mine ^ other.join().unwrap());
}

fn take(table: &Table, key: u64, quota: &Quota) -> bool {
    ask(table, key, quota, TAKE).allowed()
}

fn ask(table: &Table, key: u64, quota: &Quota, op: Op) -> Decision {
    table.apply(key, quota, op, || NOW)
}

#[test]
fn one_of_two_gets_the_only_unit_of_a_new_key() {
    model(|| {
        let (table, quota) = table();
        let key = hash(7);
        race(&table, key, quota);
    });
}

#[test]
fn one_of_two_gets_the_last_unit_of_a_known_key() {
    model(|| {
        let (table, _) = table();
        let quota = Quota::token_bucket(2, days(1)).unwrap();
        let key = hash(7);
        assert!(take(&table, key, &quota));
        race(&table, key, quota);
    });
}

#[test]
fn a_look_sees_what_was_there_all_at_once() {
    model(|| {
        let (table, _) = table();
        let quota = Quota::token_bucket(4, days(1)).unwrap();
        let key = hash(7);
        assert!(take(&table, key, &quota));
        let other = meanwhile(&table, move |table| ask(table, key, &quota, Op::Limit(Cost::new(2).unwrap())).allowed());
        let look = ask(&table, key, &quota, Op::Check(Cost::ONE));
        assert!([1, 3].contains(&look.remaining()), "{look:?}");
        assert!(other.join().unwrap());
    });
}

#[test]
fn a_key_that_moves_is_never_taken_for_a_new_one() {
    model(|| {
        let (table, quota) = table();
        let fingerprint = fingerprint_to(1, &table);
        let key = hash(fingerprint);
        assert!(take(&table, key, &quota));
        let mover = meanwhile(&table, move |table| table.move_key(fingerprint, 0, 1, NOW));
        // Exhausted before, while and after it moves.
        assert!(!take(&table, key, &quota));
        assert!(mover.join().unwrap());
        let lines = LockedPair::lock(&table, table.home(key));
        assert!(lines.get(0).line().find(fingerprint).is_none() && lines.get(1).line().find(fingerprint).is_some());
    });
}

#[test]
fn all_or_nothing_and_a_single_call_share_a_key() {
    model(|| {
        let (table, quota) = table();
        let (shared, mine) = (hash(7), hash(9));
        let other = meanwhile(&table, move |table| take(table, shared, &quota));
        let both = [mine, shared];
        let all = table.apply_all(&both.map(|key| (table.home(key), &quota, Cost::ONE)), NOW).unwrap().allowed();
        assert!(all ^ other.join().unwrap());
        // What was denied as a whole burned nothing.
        assert_eq!(take(&table, mine, &quota), !all);
    });
}

#[test]
fn a_state_in_the_other_table_is_stepped_by_one_at_a_time() {
    model(|| {
        let (table, _) = table();
        let log = Quota::sliding_log(2, days(1)).unwrap();
        let key = hash(7);
        assert!(take(&table, key, &log));
        race(&table, key, log);
    });
}

#[test]
fn a_scan_never_misses_a_key_that_moves() {
    model(|| {
        let (table, quota) = table();
        let fingerprint = fingerprint_to(1, &table);
        assert!(take(&table, hash(fingerprint), &quota));
        assert!(table.move_key(fingerprint, 0, 1, NOW));
        // From the line that comes last to the one that comes first.
        let mover = meanwhile(&table, move |table| table.move_key(fingerprint, 1, 0, NOW));
        let mut shown = Vec::new();
        let scanned = table.scan(NOW, |entry| {
            shown.push(entry.fingerprint);
            Ok::<_, ()>(())
        });
        assert!(scanned.is_ok() && mover.join().unwrap());
        assert!(!shown.is_empty() && shown.iter().all(|known| *known == fingerprint), "{shown:?}");
    });
}
