//! What a request has to get into before its limits are asked.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Key;

use super::{Caller, Outcome};
use crate::Error;
#[cfg(feature = "tokio")]
use crate::concurrency::Shared;
use crate::concurrency::{Concurrency, Fair, PerKey, Permit, Priority, Work};

/// Something that only lets so many be in flight.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Guard {
    /// Everybody together.
    Everybody(Concurrency),
    /// Each key on its own.
    PerKey(PerKey),
    /// Everybody together, of which each key is a tenant that has its part. Who finds no room waits for so long, at most.
    Fair(Fair, Duration),
    /// Each key on its own, in all processes together.
    #[cfg(feature = "tokio")]
    Shared(Shared),
}

impl From<Concurrency> for Guard {
    fn from(pool: Concurrency) -> Self {
        Guard::Everybody(pool)
    }
}

impl From<PerKey> for Guard {
    fn from(keys: PerKey) -> Self {
        Guard::PerKey(keys)
    }
}

/// Without waiting.
impl From<Fair> for Guard {
    fn from(fair: Fair) -> Self {
        Guard::Fair(fair, Duration::ZERO)
    }
}

/// # Panics
///
/// When the tenants have nothing to wait with: see [`Fair::acquire`]. Better here than with the first request that has to.
impl From<(Fair, Duration)> for Guard {
    fn from((fair, within): (Fair, Duration)) -> Self {
        assert!(within.is_zero() || fair.can_wait(), "a sleeper to wait with: the feature `tokio`, or the builder's");
        Guard::Fair(fair, within)
    }
}

#[cfg(feature = "tokio")]
impl From<Shared> for Guard {
    fn from(shared: Shared) -> Self {
        Guard::Shared(shared)
    }
}

impl Guard {
    async fn enter(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Result<Permit, Outcome> {
        if let Some(entered) = self.enter_now(caller, priority) {
            return entered;
        }
        match self {
            Guard::Fair(fair, within) => fair.acquire(key(caller)?, *within).await.map_err(Outcome::refused),
            #[cfg(feature = "tokio")]
            Guard::Shared(shared) => shared.try_acquire(key(caller)?).await.map_err(Outcome::without_permit),
            Guard::Everybody(_) | Guard::PerKey(_) => unreachable!("there is nothing to wait for"),
        }
    }

    /// None when it has to be waited for.
    fn enter_now(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Option<Result<Permit, Outcome>> {
        let entered = match self {
            Guard::Everybody(pool) => Ok(pool.try_acquire_as(priority)),
            Guard::PerKey(keys) => key(caller).map(|key| keys.try_acquire(key)),
            Guard::Fair(fair, within) => match key(caller).map(|key| fair.try_acquire(key)) {
                Ok(Err(_)) if !within.is_zero() => return None,
                entered => entered,
            },
            #[cfg(feature = "tokio")]
            Guard::Shared(_) => return None,
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
pub struct Guards(Arc<Vec<Guard>>);

impl Guards {
    /// None: everybody gets in.
    pub fn new() -> Self {
        Guards::default()
    }

    /// These, and then a further one.
    #[must_use]
    pub fn and(mut self, guard: impl Into<Guard>) -> Self {
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
        self.0.iter().any(|guard| !matches!(guard, Guard::Everybody(_)))
    }

    /// Gets into all of them, or none: the first that refuses gives back what was taken.
    pub async fn enter(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Result<Permits, Outcome> {
        let mut permits = Vec::with_capacity(self.0.len());
        for guard in &*self.0 {
            permits.push(guard.enter(caller, priority).await?);
        }
        Ok(Permits(Kept::Several(permits)))
    }

    /// The same without waiting. None when one of them may have to be waited for; nothing was done then.
    #[inline]
    pub fn enter_now(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Option<Result<Permits, Outcome>> {
        match &**self.0 {
            [guard] => {
                guard.enter_now(caller, priority).map(|entered| entered.map(|permit| Permits(Kept::One(permit))))
            }
            guards => {
                let permits = guards.iter().map(|guard| guard.enter_now(caller, priority));
                let permits = permits.collect::<Option<Result<_, _>>>()?;
                Some(permits.map(|permits| Permits(Kept::Several(permits))))
            }
        }
    }
}

impl<G: Into<Guard>> From<G> for Guards {
    fn from(guard: G) -> Self {
        Guards::new().and(guard)
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
    pub fn release(self, work: Work) {
        self.each(|permit| permit.release(work));
    }

    fn each(self, give_back: impl Fn(Permit)) {
        match self.0 {
            Kept::One(permit) => give_back(permit),
            Kept::Several(permits) => permits.into_iter().for_each(give_back),
        }
    }
}
