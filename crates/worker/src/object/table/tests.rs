//! Tests of reads, writes and sweeps of one object's table.

use tidegate::store::Scope;
use tidegate::{Cost, Key, Lease, OnStoreError, days, hours, seconds};

use super::*;
use crate::object::memory::MemoryRows;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn later(span: std::time::Duration) -> DecisionTime {
    DecisionTime { at: NOW.saturating_add(span), is_test: false }
}

fn quotas() -> [Quota; 4] {
    [
        Quota::token_bucket(2, days(1)).unwrap(),
        Quota::fixed_window(2, days(365)).unwrap(),
        Quota::sliding_window(2, days(1)).unwrap(),
        Quota::sliding_log(2, days(1)).unwrap(),
    ]
}

fn apply(
    table: &ShardTable<MemoryRows>,
    quota: &Quota,
    key: &str,
    op: Op,
    time: DecisionTime,
) -> Result<Decision, StoreError> {
    let (scope, key, on_store_error) = (Scope::new("", "api"), Key::from(key), OnStoreError::Closed);
    let request = Request { scope: &scope, key: &key, quota, op, on_store_error };
    table.decide(ObjectOp::Apply(ApplyMode::Each), &[request], time).unwrap().remove(0)
}

fn take_call_counts(table: &ShardTable<MemoryRows>) -> (usize, usize) {
    (table.rows().reads.take(), table.rows().writes.take())
}

#[test]
fn decision_reads_at_most_once_and_writes_only_a_change() {
    for quota in quotas() {
        let table = ShardTable::new(MemoryRows::default());
        let assert_calls = |op, allowed, expected| {
            assert_eq!(apply(&table, &quota, "u1", op, later(seconds(1))).unwrap().allowed(), allowed, "{op:?}");
            assert_eq!(take_call_counts(&table), expected, "{quota:?}: {op:?}: reads and writes");
        };
        assert_calls(Op::Check(Cost::ONE), true, (1, 0));
        assert_calls(Op::Limit(Cost::ONE), true, (1, 1));
        // From here on the key is cached.
        assert_calls(Op::Limit(Cost::ONE), true, (0, 1));
        assert_calls(Op::Limit(Cost::ONE), false, (0, 0));
        assert_calls(Op::Check(Cost::ONE), false, (0, 0));
        assert_calls(Op::Refund(Cost::ONE), true, (0, 1));
        assert_calls(Op::Reserve(Cost::ONE), true, (0, 1));
        assert_calls(Op::Reset, true, (0, 1));
        assert_calls(Op::Reset, true, (1, 0));
        assert!(table.rows().rows.borrow().is_empty());
    }
}

#[test]
fn restarted_object_keeps_its_state() {
    for quota in quotas() {
        let mut table = ShardTable::new(MemoryRows::default());
        for expected in [true, true, false, false] {
            let decision = apply(&table, &quota, "u1", Op::Limit(Cost::ONE), later(seconds(1))).unwrap();
            assert_eq!(decision.allowed(), expected, "{quota:?}");
            table = ShardTable::new(table.rows);
        }
    }
}

#[test]
fn failed_write_is_an_error_and_leaves_no_trace_in_the_cache() {
    for quota in quotas() {
        let table = ShardTable::new(MemoryRows::default());
        let limit = |time| apply(&table, &quota, "u1", Op::Limit(Cost::ONE), time);
        assert_eq!(limit(later(seconds(1))).unwrap().remaining(), 1);
        table.rows().is_full.set(true);
        assert!(limit(later(seconds(1))).unwrap_err().is_retryable());
        assert!(limit(later(seconds(1))).is_err());
        table.rows().is_full.set(false);
        assert_eq!(limit(later(seconds(1))).unwrap().remaining(), 0, "{quota:?}: taken once more, and no oftener");
    }
}

#[test]
fn all_or_nothing_call_writes_all_rows_at_once() {
    let (table, quota, scope) = (ShardTable::new(MemoryRows::default()), quotas()[0], Scope::new("", "api"));
    let keys: Vec<Key<'_>> = (0..50_u64).map(Key::from).collect();
    let (op, on_store_error) = (Op::Limit(Cost::new(2).unwrap()), OnStoreError::Closed);
    let requests: Vec<_> =
        keys.iter().map(|key| Request { scope: &scope, key, quota: &quota, op, on_store_error }).collect();
    let all = |op, requests: &[Request<'_>]| {
        let results = table.decide(op, requests, later(seconds(1))).unwrap();
        results.into_iter().map(|result| result.map(|decision| decision.allowed())).collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(all(ObjectOp::CheckAll, &requests).unwrap(), [true; 50]);
    assert_eq!(take_call_counts(&table).1, 0, "a check writes nothing");
    table.rows().is_full.set(true);
    assert!(all(ObjectOp::Apply(ApplyMode::All), &requests).is_err());
    table.rows().is_full.set(false);
    assert_eq!(all(ObjectOp::Apply(ApplyMode::All), &requests[..49]).unwrap(), [true; 49], "what failed took nothing");
    assert_eq!(take_call_counts(&table).1, 1);
    assert!(all(ObjectOp::Apply(ApplyMode::All), &requests).unwrap().contains(&false));
    assert_eq!(take_call_counts(&table).1, 0, "a denial writes nothing");
    assert_eq!(
        all(ObjectOp::Apply(ApplyMode::All), &requests[49..]).unwrap(),
        [true],
        "the last one was not taken before"
    );
}

#[test]
fn nothing_is_written_before_the_number_of_objects_is_set() {
    let (table, quota, scope, key) =
        (ShardTable::new(MemoryRows::default()), quotas()[0], Scope::new("", "api"), Key::from("u1"));
    table.rows().is_shard_count_unset.set(true);
    let request = |op| Request { scope: &scope, key: &key, quota: &quota, op, on_store_error: OnStoreError::Closed };
    let (check, limit) = (request(Op::Check(Cost::ONE)), request(Op::Limit(Cost::ONE)));
    assert!(table.decide(ObjectOp::Apply(ApplyMode::Each), &[check], later(seconds(1))).is_ok());
    for mode in [ApplyMode::Each, ApplyMode::All] {
        assert!(table.decide(ObjectOp::Apply(mode), &[limit, limit], later(seconds(1))).is_err());
    }
    table.rows().is_shard_count_unset.set(false);
    let results = table.decide(ObjectOp::Apply(ApplyMode::Each), &[limit, limit, limit], later(seconds(1))).unwrap();
    let allowed: Vec<_> = results.into_iter().map(|result| result.unwrap().allowed()).collect();
    assert_eq!(allowed, [true, true, false], "the calls that had to wait took nothing");
}

#[test]
fn corrupt_row_is_an_error_until_a_reset() {
    let (table, quota) = (ShardTable::new(MemoryRows::default()), quotas()[0]);
    let limit = || apply(&table, &quota, "u1", Op::Limit(Cost::ONE), later(seconds(1)));
    let row = Row { name: "%|api|u1".to_owned(), value: b"not ours".to_vec(), new_at: 0, is_test: false };
    assert!(table.rows().write(&[row]).is_ok());
    assert_eq!(limit().unwrap_err().kind(), StoreErrorKind::Corrupt);
    assert!(apply(&table, &quota, "u1", Op::Reset, later(seconds(1))).unwrap().allowed());
    assert_eq!(limit().unwrap().remaining(), 1);
}

/// Sweeps to the end and returns the number of rows that remain.
fn sweep(table: &ShardTable<MemoryRows>, time: DecisionTime) -> usize {
    let mut after = String::new();
    while let Some(next) = table.sweep(&after, time).unwrap() {
        after = next;
    }
    table.rows().rows.borrow().len()
}

#[test]
fn sweep_evicts_only_rows_that_are_as_good_as_new() {
    let table = ShardTable::new(MemoryRows::default());
    let hour = Quota::fixed_window(2, hours(1)).unwrap();
    let year = Quota::fixed_window(2, days(365)).unwrap();
    let lease = Quota::concurrency(2, days(2)).unwrap();
    for number in 0..2_500 {
        let _ = apply(&table, &hour, &format!("hour-{number}"), Op::Limit(Cost::ONE), later(seconds(0))).unwrap();
    }
    let _ = apply(&table, &year, "year", Op::Limit(Cost::new(2).unwrap()), later(seconds(0))).unwrap();
    let _ = apply(&table, &lease, "lease", Op::Admit(Lease::from_bits(7)), later(seconds(0))).unwrap();
    // Rows at the time of a test are not swept by the real time.
    let test_time = DecisionTime { is_test: true, ..later(seconds(0)) };
    let _ = apply(&table, &hour, "given", Op::Limit(Cost::ONE), test_time).unwrap();

    assert_eq!(sweep(&table, later(seconds(0))), 2_503, "nothing is as good as new yet");
    table.rows().pages.set(0);
    assert_eq!(sweep(&table, later(hours(1))), 3);
    assert_eq!(table.rows().pages.get(), 3, "in pages of 1,000");
    // The key is idle for longer than a day and still exhausted.
    assert_eq!(sweep(&table, later(hours(47))), 3);
    let denied = apply(&table, &year, "year", Op::Limit(Cost::ONE), later(hours(47))).unwrap();
    assert!(!denied.allowed());
    assert_eq!(sweep(&table, later(hours(48))), 2, "the lease has expired");
    assert_eq!(
        sweep(&table, DecisionTime { is_test: true, ..later(hours(48)) }),
        1,
        "what a test wrote goes by a test's time"
    );
    // A swept row is gone from the cache, too: even after the clock went back, the key is new.
    assert_eq!(apply(&table, &hour, "hour-1", Op::Limit(Cost::ONE), later(seconds(0))).unwrap().remaining(), 1);
}
