//! Two-tier stores of sixteen processes on one server: they stay within the bound, and lose no units.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::redis::RedisStore;
use tidegate::{
    Clock, Limiter, LimiterBuilder, MAX_PERIOD, Quota, SystemClock, Timestamp, TwoTierStore, millis, seconds,
};
use tokio::time::sleep;

use crate::child_process::test_process;
use crate::support::{connect_single, run, unique_prefix};

const PROCESSES: u64 = 16;
/// Set for a process that is one of the sixteen.
const CHILD: &str = "TIDEGATE_TEST_TWO_TIER";
const WINDOW: Duration = seconds(1);
const MICROS_PER_SECOND: u64 = 1_000_000;
/// The number of windows for which each process calls.
const WINDOWS: u32 = 5;
const RATE: u64 = 10_000;
/// The units of a window, of a bucket at once, and of a bucket for ever: each process may have a balance of 100.
const CAPACITY: u64 = 1_600;
const LASTING_CAPACITY: u64 = 160_000;

fn limits() -> LimiterBuilder {
    Limiter::builder()
        .limit("window", Quota::fixed_window(CAPACITY, WINDOW).unwrap())
        .limit("bucket", Quota::token_bucket(RATE, seconds(1)).unwrap().capacity(CAPACITY).unwrap())
        .limit("lasting", Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(LASTING_CAPACITY).unwrap())
}

#[test]
fn sixteen_processes_stay_within_the_bound_and_refund_the_rest() {
    if let Ok(prefix) = std::env::var(CHILD) {
        let store = TwoTierStore::builder()
            .expected_replicas(PROCESSES as u32)
            .build(connect_single("TIDEGATE_REDIS_URL", RedisStore::builder()));
        return run(run_process(&limits().prefix(prefix).bare_store(store).build().unwrap()));
    }
    let prefix = unique_prefix();
    let test = "two_tier::sixteen_processes_stay_within_the_bound_and_refund_the_rest";
    let began = SystemClock.now();
    let children: Vec<_> = (0..PROCESSES).map(|_| test_process(test, CHILD, &prefix).spawn().unwrap()).collect();
    let (mut windows, mut bucket, mut lasting) = (BTreeMap::<u64, u64>::new(), 0, 0);
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        for (what, count) in text.lines().filter_map(|line| line.split_once("admitted ")?.1.split_once(' ')) {
            let count: u64 = count.parse().unwrap();
            match what {
                "bucket" => bucket += count,
                "lasting" => lasting += count,
                window => *windows.entry(window.parse().unwrap()).or_default() += count,
            }
        }
    }
    let took = SystemClock.now().since(began);

    // A window never admits more than its limit, and it was asked for much more.
    assert!(windows.values().all(|admitted| *admitted <= CAPACITY), "{windows:?}");
    assert!(windows.values().any(|admitted| *admitted > CAPACITY / 2), "{windows:?}");
    // A bucket: what it has, what time brings, and a batch for each process.
    let brought = (u128::from(RATE) * took.as_micros() / 1_000_000) as u64;
    assert!(bucket <= CAPACITY + brought + PROCESSES * (CAPACITY / PROCESSES), "{bucket} in {took:?}");
    assert!(bucket > CAPACITY, "{bucket}");
    // By the server's own account, the unspent units are left, to the unit.
    let strict = limits()
        .prefix(prefix)
        .bare_store(connect_single("TIDEGATE_REDIS_URL", RedisStore::builder()))
        .build()
        .unwrap();
    let left = run(async { strict.check("lasting", "u").await }).unwrap().remaining();
    assert_eq!(left, LASTING_CAPACITY - lasting);
    assert!(lasting > 0);
}

/// Calls all limits, and prints the admitted units.
#[allow(clippy::print_stdout)] // this is how it answers
async fn run_process(limiter: &Limiter) {
    let end = SystemClock.now().saturating_add(WINDOW * WINDOWS);
    let (mut windows, mut bucket, mut lasting) = (BTreeMap::<u64, u64>::new(), 0, 0);
    while SystemClock.now() < end {
        let now = SystemClock.now();
        let taken = windows.get(&window_index(now)).copied().unwrap_or_default();
        // In every other window, a few units are taken late, so that a balance is left when the next one begins, and
        // there is enough for all processes. In that next one, as many units as possible are taken.
        let is_due =
            window_index(now) % 2 == 1 || now.as_micros() % MICROS_PER_SECOND > MICROS_PER_SECOND / 2 && taken < 60;
        let admitted = is_due && limiter.limit("window", "u").await.unwrap().allowed();
        let (before, after) = (now.saturating_sub(millis(1)), SystemClock.now().saturating_add(millis(1)));
        // Near an edge, the window is not known.
        if admitted && window_index(before) == window_index(after) {
            *windows.entry(window_index(now)).or_default() += 1;
        }
        let also = limiter.limit("bucket", "u").await.unwrap().allowed();
        bucket += u64::from(also);
        lasting += u64::from(limiter.limit("lasting", "u").await.unwrap().allowed());
        if !admitted && !also {
            sleep(millis(1)).await;
        }
    }
    limiter.close().await;
    windows.iter().for_each(|(window, count)| println!("admitted {window} {count}"));
    println!("admitted bucket {bucket}\nadmitted lasting {lasting}");
}

fn window_index(at: Timestamp) -> u64 {
    at.as_micros() / MICROS_PER_SECOND
}
