//! What a request has to get into before its limits are asked.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Key;

use super::{Caller, Outcome};
use crate::Error;
#[cfg(feature = "tokio")]
use crate::concurrency::DistributedConcurrency;
use crate::concurrency::{Completion, Concurrency, FairConcurrency, PerKey, Permit, Priority};

/// Something that only lets so many be in flight.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConcurrencyGuard {
    /// Everybody together.
    Everybody(Concurrency),
    /// Each key on its own.
    PerKey(PerKey),
    /// Everybody together, of which each key is a tenant that has its part. Who finds no room waits for so long, at most.
    Fair(FairConcurrency, Duration),
    /// Each key on its own, in all processes together.
    #[cfg(feature = "tokio")]
    Shared(DistributedConcurrency),
}

impl From<Concurrency> for ConcurrencyGuard {
    fn from(pool: Concurrency) -> Self {
        ConcurrencyGuard::Everybody(pool)
    }
}

impl From<PerKey> for ConcurrencyGuard {
    fn from(keys: PerKey) -> Self {
        ConcurrencyGuard::PerKey(keys)
    }
}

/// Without waiting.
impl From<FairConcurrency> for ConcurrencyGuard {
    fn from(fair: FairConcurrency) -> Self {
        ConcurrencyGuard::Fair(fair, Duration::ZERO)
    }
}

/// # Panics
///
/// When the tenants have nothing to wait with: see [`FairConcurrency::acquire`]. Better here than with the first request that has to.
impl From<(FairConcurrency, Duration)> for ConcurrencyGuard {
    fn from((fair, within): (FairConcurrency, Duration)) -> Self {
        assert!(within.is_zero() || fair.can_wait(), "a sleeper to wait with: the feature `tokio`, or the builder's");
        ConcurrencyGuard::Fair(fair, within)
    }
}

#[cfg(feature = "tokio")]
impl From<DistributedConcurrency> for ConcurrencyGuard {
    fn from(shared: DistributedConcurrency) -> Self {
        ConcurrencyGuard::Shared(shared)
    }
}

impl ConcurrencyGuard {
    async fn admit(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Result<Permit, Outcome> {
        if let Some(entered) = self.try_admit(caller, priority) {
            return entered;
        }
        match self {
            ConcurrencyGuard::Fair(fair, within) => fair.acquire(key(caller)?, *within).await.map_err(Outcome::refused),
            #[cfg(feature = "tokio")]
            ConcurrencyGuard::Shared(shared) => shared.try_acquire(key(caller)?).await.map_err(Outcome::without_permit),
            ConcurrencyGuard::Everybody(_) | ConcurrencyGuard::PerKey(_) => {
                unreachable!("there is nothing to wait for")
            }
        }
    }

    /// None when it has to be waited for.
    fn try_admit(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Option<Result<Permit, Outcome>> {
        let entered = match self {
            ConcurrencyGuard::Everybody(pool) => Ok(pool.try_acquire_as(priority)),
            ConcurrencyGuard::PerKey(keys) => key(caller).map(|key| keys.try_acquire(key)),
            ConcurrencyGuard::Fair(fair, within) => match key(caller).map(|key| fair.try_acquire(key)) {
                Ok(Err(_)) if !within.is_zero() => return None,
                entered => entered,
            },
            #[cfg(feature = "tokio")]
            ConcurrencyGuard::Shared(_) => return None,
        };
        Some(entered.and_then(|entered| entered.map_err(Outcome::refused)))
    }
}

/// Who is guarded: by the first of the keys, where there are several.
fn key<'a>(caller: Option<&'a Caller<'_>>) -> Result<&'a Key<'a>, Outcome> {
    caller.and_then(|caller| caller.key(0)).ok_or_else(|| Outcome::invalid(Error::NoKey))
}

/// What a request has to get into, one after the other. Cheap to clone: clones are the same.
///
/// Those that are waited for belong first: what a request has got into it holds while it waits for the next.
#[derive(Debug, Clone, Default)]
pub struct ConcurrencyGuards(Arc<Vec<ConcurrencyGuard>>);

impl ConcurrencyGuards {
    /// None: everybody gets in.
    pub fn new() -> Self {
        ConcurrencyGuards::default()
    }

    /// These, and then a further one.
    #[must_use]
    pub fn and(mut self, guard: impl Into<ConcurrencyGuard>) -> Self {
        Arc::make_mut(&mut self.0).push(guard.into());
        self
    }

    /// Whether everybody gets in.
    #[cfg(feature = "http")]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any of them tells keys apart by itself.
    pub(super) fn look_at_keys(&self) -> bool {
        self.0.iter().any(|guard| !matches!(guard, ConcurrencyGuard::Everybody(_)))
    }

    /// Gets into all of them, or none: the first that refuses gives back what was taken.
    pub async fn admit(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Result<Permits, Outcome> {
        let mut permits = Vec::with_capacity(self.0.len());
        for guard in &*self.0 {
            permits.push(guard.admit(caller, priority).await?);
        }
        Ok(Permits(Kept::Several(permits)))
    }

    /// The same without waiting. None when one of them may have to be waited for; nothing was done then.
    #[inline]
    pub fn try_admit(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Option<Result<Permits, Outcome>> {
        match &**self.0 {
            [guard] => {
                guard.try_admit(caller, priority).map(|entered| entered.map(|permit| Permits(Kept::One(permit))))
            }
            guards => {
                let permits = guards.iter().map(|guard| guard.try_admit(caller, priority));
                let permits = permits.collect::<Option<Result<_, _>>>()?;
                Some(permits.map(|permits| Permits(Kept::Several(permits))))
            }
        }
    }
}

impl<G: Into<ConcurrencyGuard>> From<G> for ConcurrencyGuards {
    fn from(guard: G) -> Self {
        ConcurrencyGuards::new().and(guard)
    }
}

/// What a request holds while it is in flight: given back exactly once, as each [`Permit`] is.
#[derive(Debug)]
#[must_use = "permits that are dropped are given back at once"]
pub struct Permits(Kept);

/// The usual one in place: an allocation for every request would be felt.
#[derive(Debug)]
enum Kept {
    One(Permit),
    Several(Vec<Permit>),
}

impl Permits {
    /// Gives them back because nobody waits for the work any more.
    #[cfg(feature = "http")]
    pub(crate) fn abandon(self) {
        self.each(Permit::abandon);
    }

    /// Gives them back, and says how the work ended.
    pub fn release(self, work: Completion) {
        self.each(|permit| permit.release(work));
    }

    fn each(self, give_back: impl Fn(Permit)) {
        match self.0 {
            Kept::One(permit) => give_back(permit),
            Kept::Several(permits) => permits.into_iter().for_each(give_back),
        }
    }
}
