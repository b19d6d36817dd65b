//! Tests of snapshots: round trips, invalid files, and saving under load.

mod concurrent;
mod invalid;
mod round_trip;

use tidegate_core::{
    Cost, Decision, MAX_COUNT, MAX_PERIOD, OnStoreError, Op, Request, Store, Timestamp, hours, minutes, seconds,
};

use super::*;
use crate::clock::ManualClock;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
/// Bytes before the first key.
const HEAD: usize = 16 + 4 + 6 * 8;
/// The offset of the version.
const VERSION_AT: usize = 16;
/// The offsets of the witness and the size.
const WITNESS_AT: usize = 16 + 4 + 4 * 8;
const LINES_AT: usize = WITNESS_AT + 8;

fn small_store(clock: &ManualClock) -> MemoryStoreBuilder {
    MemoryStore::builder().max_keys(1_000).clock(clock.clone())
}

fn apply(store: &MemoryStore, key: u64, quota: &Quota, op: Op) -> Decision {
    let (scope, key) = (Scope::new("", "test"), Key::from(key));
    let request = Request { scope: &scope, key: &key, quota, op, on_store_error: OnStoreError::Open };
    store.try_apply(&request).unwrap().unwrap()
}

fn take(store: &MemoryStore, key: u64, quota: &Quota, units: u64) -> bool {
    apply(store, key, quota, Op::Limit(Cost::new(units).unwrap())).allowed()
}

fn check(store: &MemoryStore, key: u64, quota: &Quota) -> Decision {
    apply(store, key, quota, Op::Check(Cost::ONE))
}

fn save(store: &MemoryStore) -> Vec<u8> {
    let mut file = Vec::new();
    store.save(&mut file).unwrap();
    file
}

/// Returns a quota of every kind: in a slot and not, of small numbers and of the largest.
fn quotas() -> Vec<Quota> {
    vec![
        Quota::token_bucket(10, minutes(1)).unwrap(),
        Quota::token_bucket(7, seconds(3)).unwrap().capacity(20).unwrap().max_debt(5).unwrap(),
        Quota::token_bucket(MAX_COUNT, MAX_PERIOD).unwrap(),
        Quota::fixed_window(10, minutes(1)).unwrap(),
        Quota::fixed_window(3, seconds(5)).unwrap().capacity(12).unwrap().start(seconds(2)).unwrap(),
        Quota::sliding_window(10, minutes(1)).unwrap(),
        Quota::sliding_window(MAX_COUNT, hours(1)).unwrap(),
        Quota::sliding_window(10, minutes(1)).unwrap().buckets(60).unwrap(),
        Quota::sliding_log(10, minutes(1)).unwrap(),
        Quota::sliding_log(50, seconds(20)).unwrap().max_debt(0).unwrap(),
    ]
}
