//! Permits: acquired and released.

use tidegate::concurrency::{Aimd, Completion, Concurrency, FairConcurrency, Gradient2, PerKey, Permit, Rejected};
use tidegate::{ManualClock, Timestamp};

use crate::fixtures::{TickingClock, keys};
use crate::{CALLS, Path, Paths, counted_call};

pub(crate) const PATHS: Paths = &[
    ("permit/fixed", || pool(Concurrency::fixed(LARGE_LIMIT))),
    ("permit/fixed/refused", reject),
    ("permit/aimd", || pool(Concurrency::adaptive(Aimd::default()))),
    ("permit/gradient2", || pool(Concurrency::adaptive(Gradient2::default()))),
    ("permit/per-key", per_key),
    ("permit/fair", fair),
];

/// A limit above the number of permits in flight.
const LARGE_LIMIT: u32 = 1_000;

fn pool(pool: Concurrency) -> Path {
    let pool = pool.clock(TickingClock::new());
    Box::new(move |_| acquire_and_release(|| pool.try_acquire()))
}

fn reject() -> Path {
    let pool = Concurrency::fixed(1).clock(TickingClock::new());
    let held = pool.try_acquire().expect("the first");
    Box::new(move |_| held.in_flight() == 1 && counted_call(|| pool.try_acquire().is_err()))
}

/// Every key has one permit in flight already, as a busy key has.
fn per_key() -> Path {
    let (pool, keys) = (PerKey::with_clock(LARGE_LIMIT, TickingClock::new()), keys());
    let held: Vec<Permit> = keys.iter().map(|key| pool.try_acquire(key).expect("the first")).collect();
    Box::new(move |key| held.len() == CALLS && acquire_and_release(|| pool.try_acquire(&keys[key])))
}

fn fair() -> Path {
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let (pool, keys) = (FairConcurrency::builder(LARGE_LIMIT).sleeper(clock).build(), keys());
    Box::new(move |key| acquire_and_release(|| pool.try_acquire(&keys[key % TENANTS])))
}

/// The number of tenants that share the pool.
const TENANTS: usize = 50;

/// Acquires and releases a permit. Returns whether it got one.
fn acquire_and_release(acquire: impl FnOnce() -> Result<Permit, Rejected>) -> bool {
    counted_call(|| acquire().map(|permit| permit.release(Completion::Success)).is_ok())
}
