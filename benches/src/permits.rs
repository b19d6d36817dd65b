//! Time to acquire and release a permit, compared with tokio's semaphore.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use tidegate::concurrency::{Aimd, Completion, Concurrency, FairConcurrency, Gradient2, PerKey, Vegas};
use tokio::sync::Semaphore;

/// The permits that a thread takes in a round.
const TIMES: u32 = 1_000_000;
/// Rounds. We report the best one: noise only ever adds time.
const ROUNDS: usize = 9;
/// A limit above the permits in flight.
const LARGE_LIMIT: u32 = 1_000;

pub(crate) fn run() {
    println!(
        "\nNanoseconds to acquire and release a permit, the best of {ROUNDS} rounds of {TIMES}, and the ratio to tokio's semaphore.\n\
         Its permit is owned, because a permit in a response must be. Expected: below 100 in one thread."
    );
    println!("\n{:<48} {:>10} {:>8} {:>12} {:>8}", "", "one thread", "of it", "two threads", "of it");
    let semaphore = Arc::new(Semaphore::new(LARGE_LIMIT as usize));
    let yardstick =
        [1, 2].map(|threads| best(threads, || black_box(Arc::clone(&semaphore).try_acquire_owned().is_ok())));
    let row = |name: &str, times: [f64; 2]| {
        println!(
            "{name:<48} {:>10.0} {:>7.2}x {:>12.0} {:>7.2}x",
            times[0],
            times[0] / yardstick[0],
            times[1],
            times[1] / yardstick[1]
        );
    };
    row("tokio's semaphore, owned", yardstick);
    row("tokio's semaphore, borrowed", times(|| semaphore.try_acquire().is_ok()));
    let fixed = Concurrency::fixed(LARGE_LIMIT);
    row("tidegate, fixed, dropped", times(|| fixed.try_acquire().is_ok()));
    row(
        "tidegate, fixed, released",
        times(|| fixed.try_acquire().map(|permit| permit.release(Completion::Success)).is_ok()),
    );
    let adaptive = [
        ("tidegate, AIMD", Concurrency::adaptive(Aimd::default())),
        ("tidegate, Gradient2", Concurrency::adaptive(Gradient2::default())),
        ("tidegate, Vegas", Concurrency::adaptive(Vegas::default())),
    ];
    for (name, pool) in &adaptive {
        row(name, times(|| pool.try_acquire().map(|permit| permit.release(Completion::Success)).is_ok()));
    }
    let keys = PerKey::new(LARGE_LIMIT);
    let _held = keys.try_acquire("alice");
    row("tidegate, per key", times(|| keys.try_acquire("alice").is_ok()));
    let fair = FairConcurrency::builder(LARGE_LIMIT).build();
    row("tidegate, fair", times(|| fair.try_acquire("alice").is_ok()));
}

fn times(take: impl Fn() -> bool + Sync) -> [f64; 2] {
    [1, 2].map(|threads| best(threads, &take))
}

/// Returns the nanoseconds for one permit, with that many concurrent threads.
fn best(threads: usize, take: impl Fn() -> bool + Sync) -> f64 {
    let round = || {
        let barrier = Barrier::new(threads + 1);
        let took = std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..TIMES {
                        assert!(take(), "there are plenty");
                    }
                    barrier.wait();
                });
            }
            barrier.wait();
            let begun = Instant::now();
            barrier.wait();
            begun.elapsed()
        });
        took.as_nanos() as f64 / f64::from(TIMES)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::MAX, f64::min)
}
