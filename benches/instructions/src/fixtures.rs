//! Fixtures of all paths: a clock, keys and a store that are the same in every run.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use tidegate::{Clock, Key, Limiter, LimiterBuilder, MemoryStore, Quota, Timestamp, hours, seconds};

use crate::{CALLS, ROUNDS};

/// A clock that advances by a microsecond at every read. The system clock sometimes makes a system call, so its cost
/// differs between reads.
pub(crate) struct TickingClock(AtomicU64);

impl TickingClock {
    pub(crate) fn new() -> Self {
        TickingClock(AtomicU64::new(1_700_000_000_000_000))
    }
}

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Creates a store that is half full of the requested keys, always in the same places.
pub(crate) fn store() -> MemoryStore {
    MemoryStore::builder().max_keys(2 * CALLS).clock(TickingClock::new()).seed(1).build()
}

/// Returns the texts of the keys, of 24 bytes each.
pub(crate) fn texts() -> Vec<String> {
    (0..CALLS as u64).map(|number| format!("user-{:019}", number.wrapping_mul(7_919))).collect()
}

/// Returns the keys.
pub(crate) fn keys() -> Vec<Key<'static>> {
    texts().into_iter().map(Key::from).collect()
}

/// Returns one address for each key.
pub(crate) fn addresses() -> Vec<IpAddr> {
    (0..CALLS as u32).map(|number| Ipv4Addr::from_bits(0x0b00_0000 + number * 7_919).into()).collect()
}

/// Returns a quota that is large enough for every round. Its units are not refilled before the next round.
pub(crate) fn large_quota() -> Quota {
    Quota::token_bucket(1, seconds(1)).and_then(|quota| quota.capacity(1_000 * ROUNDS as u64)).expect("a valid quota")
}

/// Returns a quota that the first round uses up.
pub(crate) fn quota_of_one() -> Quota {
    Quota::token_bucket(1, hours(1)).expect("a valid quota")
}

/// Creates a limiter on such a store, with these limits and a few that are never used.
pub(crate) fn limiter(limits: &[(&str, Quota)]) -> Limiter {
    let others = ["login", "search", "upload", "export"].map(|name| (name, large_quota()));
    let build = |builder: LimiterBuilder| builder.store(store()).build().expect("a limiter");
    build(Limiter::builder().limits(others).limits(limits.iter().copied()))
}

/// Returns the output of a future that is ready at once.
pub(crate) fn poll_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("everything here is in process"),
    }
}
