//! Snapshots while keys move and change.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::{State, days};

use super::super::super::overflow::KeyRecord;
use super::*;

#[test]
fn key_that_moves_behind_a_scan_is_not_missed() {
    let quota = Quota::token_bucket(2, days(1)).unwrap();
    let state = State::TokenBucket { deficit: 1_000, last: START };
    let table = Table::new(3, 1 << 20);
    let lines = &table;
    let fingerprints =
        |first: usize, second: usize| (1..).filter(move |fingerprint| lines.other_line(first, *fingerprint) == second);
    // A line's own key shows when the scan reads the line. The fingerprints of lines 0 and 2 are those of line 1 alone.
    let (first, middle) = (fingerprints(0, 0).next().unwrap(), fingerprints(1, 1).next().unwrap());
    let mover = fingerprints(0, 2).find(|fingerprint| *fingerprint != middle).unwrap();
    for (fingerprint, line) in [(first, 0), (middle, 1), (mover, 0)] {
        table.restore(&KeyRecord { fingerprint, line, quota, state: state.clone() }, START);
    }
    let count_shown = |at: u64, from: usize, to: usize| {
        let mut shown = Vec::new();
        let show = |entry: KeyRecord| {
            shown.push(entry.fingerprint);
            if entry.fingerprint == at {
                assert!(table.move_key(mover, from, to, START));
            }
            Ok::<_, ()>(())
        };
        table.scan(START, show).unwrap();
        shown.into_iter().filter(|fingerprint| *fingerprint == mover).count()
    };
    // Forth, from a line that was read: the key is shown again. Back, from a line that was not read: it is shown once.
    assert_eq!(count_shown(middle, 0, 2), 2);
    assert_eq!(count_shown(middle, 2, 0), 1);
    assert_eq!(count_shown(first, 0, 2), 2);
    assert_eq!(count_shown(first, 2, 0), 1);
    // One `count_shown` leaves nothing behind for the next.
    assert!(table.move_key(mover, 0, 2, START) && table.move_key(mover, 2, 0, START));
    assert_eq!(count_shown(0, 0, 0), 1);
}

#[test]
fn later_record_of_a_key_wins() {
    let (bucket, log) = (Quota::token_bucket(10, days(1)).unwrap(), Quota::sliding_log(10, days(1)).unwrap());
    let store = small_store(&ManualClock::new(START)).build();
    let mut states = Vec::new();
    for (quota, units) in [(bucket, 3), (bucket, 4), (log, 5), (log, 1), (bucket, 2)] {
        take(&store, 1, &quota, units);
        let show = |entry| {
            states.push((check(&store, 1, &quota), entry));
            Ok::<_, ()>(())
        };
        store.table.scan(START, show).unwrap();
        let _ = apply(&store, 1, &quota, Op::Reset);
    }
    for (expected, entry) in &states {
        store.table.restore(entry, START);
        assert_eq!(check(&store, 1, &entry.quota), *expected);
        assert_eq!(store.stats().keys, 1);
    }
    // Also when the state is as good as new by now.
    let (_, last) = &states[4];
    store.table.restore(last, START.saturating_add(days(1)));
    assert_eq!(store.stats().keys, 0);
}

#[test]
fn snapshot_is_consistent_while_four_threads_use_the_store() {
    const HOT: u64 = 1_000_000;
    let quota = Quota::token_bucket(4_000_000_000, days(1)).unwrap();
    let exhaustible = [Quota::token_bucket(10, days(1)).unwrap(), Quota::sliding_log(10, days(1)).unwrap()];
    let clock = ManualClock::new(START);
    let store = small_store(&clock).build();
    assert!((0..100).all(|key| take(&store, key, &exhaustible[key as usize % 2], 10)));
    assert!(take(&store, HOT, &quota, 3_900_000_000));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let (store, done, quotas) = (&store, &done, &exhaustible);
            scope.spawn(move || {
                // New keys make the others move. They are hardly used, so no exhausted key is evicted for them.
                for key in thread * 10_000_000.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    take(store, key, &quotas[key as usize % 2], 1);
                    take(store, HOT, &quota, 1);
                }
            });
        }
        // Also when an assertion fails.
        let _stop = StopOnDrop(&done);
        for _ in 0..60 {
            let before = check(&store, HOT, &quota).remaining();
            let file = save(&store);
            let after = check(&store, HOT, &quota).remaining();
            let loaded = small_store(&clock).load(&file[..]).unwrap();
            assert!((after..=before).contains(&check(&loaded, HOT, &quota).remaining()));
            let forgiven = (0..100).filter(|key| take(&loaded, *key, &exhaustible[*key as usize % 2], 1)).count();
            assert_eq!(forgiven, 0);
        }
    });
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
