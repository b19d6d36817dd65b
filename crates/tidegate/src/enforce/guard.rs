//! Concurrency guards, which a request passes before its limits.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::Key;

use super::{Caller, Outcome};
use crate::Error;
#[cfg(feature = "tokio")]
use crate::concurrency::DistributedConcurrency;
use crate::concurrency::{Completion, Concurrency, FairConcurrency, PerKey, Permit, Priority, Rejected};
use crate::telemetry;

/// A bound on how many requests are in flight.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConcurrencyGuard {
    /// One bound for all requests together.
    Global(Concurrency),
    /// One bound for each key.
    PerKey(PerKey),
    /// One bound for all requests, with a share for each key. A request waits for at most this long.
    Fair(FairConcurrency, Duration),
    /// One bound for each key, in all processes together.
    #[cfg(feature = "tokio")]
    Distributed(DistributedConcurrency),
}

impl From<Concurrency> for ConcurrencyGuard {
    fn from(pool: Concurrency) -> Self {
        ConcurrencyGuard::Global(pool)
    }
}

impl From<PerKey> for ConcurrencyGuard {
    fn from(keys: PerKey) -> Self {
        ConcurrencyGuard::PerKey(keys)
    }
}

/// Creates a guard that never waits.
impl From<FairConcurrency> for ConcurrencyGuard {
    fn from(fair: FairConcurrency) -> Self {
        ConcurrencyGuard::Fair(fair, Duration::ZERO)
    }
}

/// # Panics
///
/// If the tenants have no timer to wait with: see [`FairConcurrency::acquire`]. Otherwise, the first request that waits
/// would panic.
impl From<(FairConcurrency, Duration)> for ConcurrencyGuard {
    fn from((fair, within): (FairConcurrency, Duration)) -> Self {
        assert!(within.is_zero() || fair.can_wait(), "a sleeper to wait with: the feature `tokio`, or the builder's");
        ConcurrencyGuard::Fair(fair, within)
    }
}

#[cfg(feature = "tokio")]
impl From<DistributedConcurrency> for ConcurrencyGuard {
    fn from(shared: DistributedConcurrency) -> Self {
        ConcurrencyGuard::Distributed(shared)
    }
}

impl ConcurrencyGuard {
    async fn admit(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Result<Permit, Outcome> {
        if let Some(entered) = self.try_admit(caller, priority) {
            return entered;
        }
        match self {
            ConcurrencyGuard::Fair(fair, within) => {
                counted(fair.acquire(guard_key(caller)?, *within).await).map_err(Outcome::from_rejected)
            }
            // Its limit counts.
            #[cfg(feature = "tokio")]
            ConcurrencyGuard::Distributed(shared) => {
                shared.try_acquire(guard_key(caller)?).await.map_err(Outcome::from_acquire_error)
            }
            ConcurrencyGuard::Global(_) | ConcurrencyGuard::PerKey(_) => {
                unreachable!("there is nothing to wait for")
            }
        }
    }

    /// Passes the guard without waiting. Returns `None` if the request must wait.
    fn try_admit(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Option<Result<Permit, Outcome>> {
        let entered = match self {
            ConcurrencyGuard::Global(pool) => Ok(pool.try_acquire_as(priority)),
            ConcurrencyGuard::PerKey(keys) => guard_key(caller).map(|key| keys.try_acquire(key)),
            ConcurrencyGuard::Fair(fair, within) => match guard_key(caller).map(|key| fair.try_acquire(key)) {
                Ok(Err(_)) if !within.is_zero() => return None,
                entered => entered,
            },
            #[cfg(feature = "tokio")]
            ConcurrencyGuard::Distributed(_) => return None,
        };
        Some(entered.and_then(|entered| counted(entered).map_err(Outcome::from_rejected)))
    }
}

/// Counts a request that a guard in process has let pass or refused.
fn counted(entered: Result<Permit, Rejected>) -> Result<Permit, Rejected> {
    telemetry::record_guard(entered.is_ok());
    entered
}

/// Returns the key that guards use: the first of the caller's keys.
fn guard_key<'a>(caller: Option<&'a Caller<'_>>) -> Result<&'a Key<'a>, Outcome> {
    caller.and_then(|caller| caller.key(0)).ok_or_else(|| Outcome::invalid(Error::NoKey))
}

/// Guards that a request passes in order. Cheap to clone: clones share their permits.
///
/// Put guards that wait first: a request keeps the permits of earlier guards while it waits.
#[derive(Debug, Clone, Default)]
pub struct ConcurrencyGuards(Arc<Vec<ConcurrencyGuard>>);

impl ConcurrencyGuards {
    /// Returns no guards: every request passes.
    pub fn new() -> Self {
        ConcurrencyGuards::default()
    }

    /// Adds a guard after the others.
    #[must_use]
    pub fn and(mut self, guard: impl Into<ConcurrencyGuard>) -> Self {
        Arc::make_mut(&mut self.0).push(guard.into());
        self
    }

    /// Returns whether there is no guard.
    #[cfg(feature = "http")]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether any guard uses keys.
    pub(super) fn use_keys(&self) -> bool {
        self.0.iter().any(|guard| !matches!(guard, ConcurrencyGuard::Global(_)))
    }

    /// Passes all guards or none: when one rejects, the permits of those before it are released.
    pub async fn admit(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Result<Permits, Outcome> {
        let mut permits = Vec::with_capacity(self.0.len());
        for guard in &*self.0 {
            permits.push(guard.admit(caller, priority).await?);
        }
        Ok(Permits(PermitSet::Many(permits)))
    }

    /// Passes all guards or none, without waiting. Returns `None` if one may have to wait. Nothing was done then.
    #[inline]
    pub fn try_admit(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Option<Result<Permits, Outcome>> {
        match &**self.0 {
            [guard] => {
                guard.try_admit(caller, priority).map(|entered| entered.map(|permit| Permits(PermitSet::One(permit))))
            }
            guards => {
                let permits = guards.iter().map(|guard| guard.try_admit(caller, priority));
                let permits = permits.collect::<Option<Result<_, _>>>()?;
                Some(permits.map(|permits| Permits(PermitSet::Many(permits))))
            }
        }
    }
}

impl<G: Into<ConcurrencyGuard>> From<G> for ConcurrencyGuards {
    fn from(guard: G) -> Self {
        ConcurrencyGuards::new().and(guard)
    }
}

/// The permits of a request in flight. They are released exactly once, as each [`Permit`] is.
#[derive(Debug)]
#[must_use = "permits that are dropped are given back at once"]
pub struct Permits(PermitSet);

/// One permit in place, because an allocation for every request would cost too much, or several.
#[derive(Debug)]
enum PermitSet {
    One(Permit),
    Many(Vec<Permit>),
}

impl Permits {
    /// Releases them because the client no longer waits for the work.
    #[cfg(feature = "http")]
    pub(crate) fn abandon(self) {
        self.for_each(Permit::abandon);
    }

    /// Releases them, and records how the work ended.
    pub fn release(self, work: Completion) {
        self.for_each(|permit| permit.release(work));
    }

    /// Returns whether any of them [is lost](Permit::is_lost).
    pub fn is_lost(&self) -> bool {
        self.as_slice().iter().any(Permit::is_lost)
    }

    /// Waits until one of them [is lost](Permit::lost).
    pub fn lost(&self) -> impl Future<Output = ()> + Send + Unpin + use<> {
        let mut lost: Vec<_> = self.as_slice().iter().map(Permit::lost).collect();
        poll_fn(move |context| {
            let any = lost.iter_mut().any(|lost| Pin::new(lost).poll(context).is_ready());
            if any { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    fn as_slice(&self) -> &[Permit] {
        match &self.0 {
            PermitSet::One(permit) => std::slice::from_ref(permit),
            PermitSet::Many(permits) => permits,
        }
    }

    fn for_each(self, release: impl Fn(Permit)) {
        match self.0 {
            PermitSet::One(permit) => release(permit),
            PermitSet::Many(permits) => permits.into_iter().for_each(release),
        }
    }
}
