//! The memory store: each algorithm, allowed and denied, and leases.

use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Decision, Lease, MemoryStore, OnStoreError, Quota, QuotaError, Store};
use tidegate::{hours, millis, minutes};

use crate::fixtures::{keys, large_quota, quota_of_one, store};
use crate::{Path, Paths, counted_call};

pub(crate) const PATHS: Paths = &[
    ("memory/token-bucket/allowed", || limit(Ok(large_quota()), true)),
    ("memory/token-bucket/denied", || limit(Ok(quota_of_one()), false)),
    ("memory/fixed-window/allowed", || limit(Quota::fixed_window(1_000, minutes(1)), true)),
    ("memory/fixed-window/denied", || limit(Quota::fixed_window(1, hours(1)), false)),
    ("memory/sliding-window/allowed", || limit(Quota::sliding_window(1_000, minutes(1)), true)),
    ("memory/sliding-window/denied", || limit(Quota::sliding_window(1, hours(1)), false)),
    // A round takes a millisecond, so each log always has ten requests.
    ("memory/sliding-log/allowed", || limit(Quota::sliding_log(1_000, millis(10)), true)),
    ("memory/sliding-log/denied", || limit(Quota::sliding_log(10, hours(1)), false)),
    ("memory/lease/admit-release", admit_and_release),
    ("memory/lease/renew", renew),
    ("memory/lease/denied", deny_lease),
];

fn limit(quota: Result<Quota, QuotaError>, allowed: bool) -> Path {
    let caller = StoreCaller::new(quota);
    Box::new(move |key| counted_call(|| caller.apply(key, Op::Limit(Cost::ONE)).allowed()) == allowed)
}

fn admit_and_release() -> Path {
    let caller = StoreCaller::new(Quota::concurrency(10, minutes(1)));
    Box::new(move |key| {
        let lease = Lease::from_bits(7);
        counted_call(|| {
            caller.apply(key, Op::Admit(lease)).allowed() && caller.apply(key, Op::Release(lease)).allowed()
        })
    })
}

fn renew() -> Path {
    let caller = full_concurrency();
    Box::new(move |key| counted_call(|| caller.apply(key, Op::Renew(Lease::from_bits(1))).allowed()))
}

fn deny_lease() -> Path {
    let caller = full_concurrency();
    Box::new(move |key| !counted_call(|| caller.apply(key, Op::Admit(Lease::from_bits(2))).allowed()))
}

/// Returns a concurrency limit of one for each key, with one lease in flight.
fn full_concurrency() -> StoreCaller {
    let caller = StoreCaller::new(Quota::concurrency(1, hours(1)));
    for key in 0..caller.keys.len() {
        assert!(caller.apply(key, Op::Admit(Lease::from_bits(1))).allowed());
    }
    caller
}

/// A store with the scope, the quota and the keys of its requests.
struct StoreCaller {
    store: MemoryStore,
    scope: Scope,
    quota: Quota,
    keys: Vec<tidegate::Key<'static>>,
}

impl StoreCaller {
    fn new(quota: Result<Quota, QuotaError>) -> Self {
        StoreCaller { store: store(), scope: Scope::new("", "api"), quota: quota.expect("a valid quota"), keys: keys() }
    }

    #[inline(always)]
    fn apply(&self, key: usize, op: Op) -> Decision {
        let StoreCaller { store, scope, quota, keys } = self;
        let request = Request { scope, key: &keys[key], quota, op, on_store_error: OnStoreError::Open };
        store.try_apply(&request).expect("it is in process").expect("it cannot fail")
    }
}
