//! Tenants that wait at the same time.

use std::time::Duration;

use tidegate::concurrency::{FairConcurrency, FairConcurrencyBuilder, Permit, Rejected};
use tidegate::{ManualClock, Timestamp};

use crate::common_crowd::{self, WaitingCall};

/// A clock that stands far from the epoch.
pub(crate) fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_800_000_000_000))
}

/// Slots that follow `clock`.
pub(crate) fn fair(limit: u32, clock: &ManualClock) -> FairConcurrencyBuilder {
    FairConcurrency::builder(limit).sleeper(clock.clone())
}

/// Acquires as many permits as a tenant can get without waiting.
pub(crate) fn all_of(fair: &FairConcurrency, tenant: &str) -> Vec<Permit> {
    std::iter::from_fn(|| fair.try_acquire(tenant).ok()).collect()
}

/// A caller that acquires, and waits if it must.
pub(crate) type Acquire = WaitingCall<'static, Result<Permit, Rejected>>;

/// Callers that wait for permits.
pub(crate) type Crowd = common_crowd::Crowd<'static, Result<Permit, Rejected>>;

impl Crowd {
    /// Adds a caller, polls it as far as it can go, and returns its number.
    pub(crate) fn join(&mut self, fair: &FairConcurrency, tenant: &str, within: Duration) -> usize {
        let (fair, tenant) = (fair.clone(), tenant.to_owned());
        self.add(async move { fair.acquire(tenant.as_str(), within).await })
    }

    /// Returns the permits since the last call, and their callers. There must be no rejections.
    pub(crate) fn permits(&mut self) -> Vec<(usize, Permit)> {
        self.answers().into_iter().map(|(number, answer)| (number, answer.unwrap())).collect()
    }
}
