//! Limiters for the tests.

use tidegate::{Key, Limiter, LimiterBuilder, ManualClock, MemoryStore, Quota, Timestamp, minutes};
use tidegate_testkit::block_on;

#[cfg(feature = "axum")]
use crate::waiting_store::WaitingStore;

/// A limiter with these limits per minute.
pub(crate) fn limiter(limits: &[(&str, u64)]) -> Limiter {
    with_limits(builder(), limits)
}

/// Creates that limiter on a store that is not immediate.
#[cfg(feature = "axum")]
pub(crate) fn waiting_limiter(limits: &[(&str, u64)]) -> Limiter {
    with_limits(Limiter::builder().bare_store(WaitingStore::new(memory())), limits)
}

fn with_limits(builder: LimiterBuilder, limits: &[(&str, u64)]) -> Limiter {
    limits.iter().fold(builder, |builder, (name, rate)| builder.limit(*name, quota(*rate))).build().unwrap()
}

/// In memory, on a manual clock.
pub(crate) fn builder() -> LimiterBuilder {
    Limiter::builder().store(memory())
}

fn memory() -> MemoryStore {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    MemoryStore::builder().max_keys(4_096).clock(clock).build()
}

pub(crate) fn quota(rate: u64) -> Quota {
    Quota::fixed_window(rate, minutes(1)).unwrap()
}

/// The remaining quota of a key.
pub(crate) fn left<'a>(limiter: &'a Limiter, limit: &'a str, key: impl Into<Key<'a>>) -> u64 {
    block_on(limiter.check(limit, key).into_future()).unwrap().remaining()
}
