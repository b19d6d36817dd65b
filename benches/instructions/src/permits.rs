//! Permits, taken and given back.

use tidegate::concurrency::{Aimd, Completion, Concurrency, FairConcurrency, Gradient2, PerKey, Permit, Rejected};
use tidegate::{ManualClock, Timestamp};

use crate::setting::{Ticking, keys};
use crate::{CALLS, Path, Paths, counted_call};

pub(crate) const PATHS: Paths = &[
    ("permit/fixed", || pool(Concurrency::fixed(PLENTY))),
    ("permit/fixed/refused", refused),
    ("permit/aimd", || pool(Concurrency::adaptive(Aimd::default()))),
    ("permit/gradient2", || pool(Concurrency::adaptive(Gradient2::default()))),
    ("permit/per-key", per_key),
    ("permit/fair", fair),
];

/// More than anybody takes at once.
const PLENTY: u32 = 1_000;

fn pool(pool: Concurrency) -> Path {
    let pool = pool.clock(Ticking::new());
    Box::new(move |_| given_back(|| pool.try_acquire()))
}

fn refused() -> Path {
    let pool = Concurrency::fixed(1).clock(Ticking::new());
    let held = pool.try_acquire().expect("the first");
    Box::new(move |_| held.in_flight() == 1 && counted_call(|| pool.try_acquire().is_err()))
}

/// Every key has one in flight already, as a busy one has.
fn per_key() -> Path {
    let (pool, keys) = (PerKey::with_clock(PLENTY, Ticking::new()), keys());
    let held: Vec<Permit> = keys.iter().map(|key| pool.try_acquire(key).expect("the first")).collect();
    Box::new(move |key| held.len() == CALLS && given_back(|| pool.try_acquire(&keys[key])))
}

fn fair() -> Path {
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let (pool, keys) = (FairConcurrency::builder(PLENTY).sleeper(clock).build(), keys());
    Box::new(move |key| given_back(|| pool.try_acquire(&keys[key % TENANTS])))
}

/// How many share.
const TENANTS: usize = 50;

/// Whether there was a permit to take and to give back.
fn given_back(acquire: impl FnOnce() -> Result<Permit, Rejected>) -> bool {
    counted_call(|| acquire().map(|permit| permit.release(Completion::Success)).is_ok())
}
