//! The memory store: each algorithm, allowed and denied, and leases.

use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Decision, Lease, MemoryStore, OnStoreError, Quota, QuotaError, Store};
use tidegate::{hours, millis, minutes};

use crate::setting::{keys, one, plenty, store};
use crate::{Path, Paths, counted_call};

pub(crate) const PATHS: Paths = &[
    ("memory/token-bucket/allowed", || taking(Ok(plenty()), true)),
    ("memory/token-bucket/denied", || taking(Ok(one()), false)),
    ("memory/fixed-window/allowed", || taking(Quota::fixed_window(1_000, minutes(1)), true)),
    ("memory/fixed-window/denied", || taking(Quota::fixed_window(1, hours(1)), false)),
    ("memory/sliding-window/allowed", || taking(Quota::sliding_window(1_000, minutes(1)), true)),
    ("memory/sliding-window/denied", || taking(Quota::sliding_window(1, hours(1)), false)),
    // A round is a millisecond, so there are always ten in each log.
    ("memory/sliding-log/allowed", || taking(Quota::sliding_log(1_000, millis(10)), true)),
    ("memory/sliding-log/denied", || taking(Quota::sliding_log(10, hours(1)), false)),
    ("memory/lease/admit-release", admit_and_release),
    ("memory/lease/renew", renew),
    ("memory/lease/denied", no_place),
];

fn taking(quota: Result<Quota, QuotaError>, allowed: bool) -> Path {
    let asks = Asks::new(quota);
    Box::new(move |key| counted_call(|| asks.ask(key, Op::Limit(Cost::ONE)).allowed()) == allowed)
}

fn admit_and_release() -> Path {
    let asks = Asks::new(Quota::concurrency(10, minutes(1)));
    Box::new(move |key| {
        let lease = Lease::from_bits(7);
        counted_call(|| asks.ask(key, Op::Admit(lease)).allowed() && asks.ask(key, Op::Release(lease)).allowed())
    })
}

fn renew() -> Path {
    let asks = held_by_one();
    Box::new(move |key| counted_call(|| asks.ask(key, Op::Renew(Lease::from_bits(1))).allowed()))
}

fn no_place() -> Path {
    let asks = held_by_one();
    Box::new(move |key| !counted_call(|| asks.ask(key, Op::Admit(Lease::from_bits(2))).allowed()))
}

/// One place for each key, which somebody holds.
fn held_by_one() -> Asks {
    let asks = Asks::new(Quota::concurrency(1, hours(1)));
    for key in 0..asks.keys.len() {
        assert!(asks.ask(key, Op::Admit(Lease::from_bits(1))).allowed());
    }
    asks
}

/// A store and what it is asked with.
struct Asks {
    store: MemoryStore,
    scope: Scope,
    quota: Quota,
    keys: Vec<tidegate::Key<'static>>,
}

impl Asks {
    fn new(quota: Result<Quota, QuotaError>) -> Self {
        Asks { store: store(), scope: Scope::new("", "api"), quota: quota.expect("a valid quota"), keys: keys() }
    }

    #[inline(always)]
    fn ask(&self, key: usize, op: Op) -> Decision {
        let Asks { store, scope, quota, keys } = self;
        let request = Request { scope, key: &keys[key], quota, op, on_store_error: OnStoreError::Open };
        store.try_apply(&request).expect("it is in process").expect("it cannot fail")
    }
}
