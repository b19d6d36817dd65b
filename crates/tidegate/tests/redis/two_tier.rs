//! Sixteen processes that take batches from one server: they keep the bound, and lose no units.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::redis::RedisStore;
use tidegate::{
    Clock, Limiter, LimiterBuilder, MAX_PERIOD, Quota, SystemClock, Timestamp, TwoTierStore, millis, seconds,
};
use tokio::time::sleep;

use crate::myself::myself;
use crate::support::{prefix, run, single};

const PROCESSES: u64 = 16;
/// Set for a process that is one of the sixteen.
const CHILD: &str = "TIDEGATE_TEST_TWO_TIER";
const WINDOW: Duration = seconds(1);
const MICROS: u64 = 1_000_000;
/// For so many windows each process asks.
const WINDOWS: u32 = 5;
const RATE: u64 = 10_000;
/// What a window admits, a bucket has at once, and a bucket has for ever: each process may have a balance of 100.
const CAPACITY: u64 = 1_600;
const LASTING: u64 = 160_000;

fn limits() -> LimiterBuilder {
    Limiter::builder()
        .limit("window", Quota::fixed_window(CAPACITY, WINDOW).unwrap())
        .limit("bucket", Quota::token_bucket(RATE, seconds(1)).unwrap().capacity(CAPACITY).unwrap())
        .limit("lasting", Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(LASTING).unwrap())
}

#[test]
fn sixteen_processes_keep_the_bound_and_give_back_the_rest() {
    if let Ok(prefix) = std::env::var(CHILD) {
        let store = TwoTierStore::builder()
            .expected_replicas(PROCESSES as u32)
            .build(single("TIDEGATE_REDIS_URL", RedisStore::builder()));
        return run(ask(&limits().prefix(prefix).bare_store(store).build().unwrap()));
    }
    let prefix = prefix();
    let test = "two_tier::sixteen_processes_keep_the_bound_and_give_back_the_rest";
    let began = SystemClock.now();
    let children: Vec<_> = (0..PROCESSES).map(|_| myself(test, CHILD, &prefix).spawn().unwrap()).collect();
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
    // By the server's own account: it has what nobody has spent, to the unit.
    let strict =
        limits().prefix(prefix).bare_store(single("TIDEGATE_REDIS_URL", RedisStore::builder())).build().unwrap();
    let left = run(async { strict.check("lasting", "u").await }).unwrap().remaining();
    assert_eq!(left, LASTING - lasting);
    assert!(lasting > 0);
}

/// Asks for everything, and says what was admitted.
#[allow(clippy::print_stdout)] // this is how it answers
async fn ask(limiter: &Limiter) {
    let end = SystemClock.now().saturating_add(WINDOW * WINDOWS);
    let (mut windows, mut bucket, mut lasting) = (BTreeMap::<u64, u64>::new(), 0, 0);
    while SystemClock.now() < end {
        let now = SystemClock.now();
        let taken = windows.get(&window(now)).copied().unwrap_or_default();
        // In every other window a little is taken, late, so that something is in hand when the next begins, and there is
        // enough for everybody; in that, as much as can be had.
        let wants = window(now) % 2 == 1 || now.as_micros() % MICROS > MICROS / 2 && taken < 60;
        let admitted = wants && limiter.limit("window", "u").await.unwrap().allowed();
        let (before, after) = (now.saturating_sub(millis(1)), SystemClock.now().saturating_add(millis(1)));
        // Around an edge nobody can tell which window it was.
        if admitted && window(before) == window(after) {
            *windows.entry(window(now)).or_default() += 1;
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

fn window(at: Timestamp) -> u64 {
    at.as_micros() / MICROS
}
