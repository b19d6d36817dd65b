//! What a request has to get into before its limits are asked.

use crate::concurrency::{Concurrency, PerKey, Permit, Priority, Work};

use super::{Caller, Outcome};
use crate::Error;

/// Something that only lets so many be in flight.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Guard {
    /// Everybody together.
    Everybody(Concurrency),
    /// Each key on its own.
    PerKey(PerKey),
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

impl Guard {
    async fn enter(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Result<Permit, Outcome> {
        self.enter_now(caller, priority).expect("TODO")
    }

    fn enter_now(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Option<Result<Permit, Outcome>> {
        let entered = match self {
            Guard::Everybody(pool) => pool.try_acquire_as(priority),
            Guard::PerKey(keys) => match caller.and_then(|caller| caller.key(0)) {
                Some(key) => keys.try_acquire(key),
                None => return Some(Err(Outcome::Invalid(Error::NoKey))),
            },
        };
        Some(entered.map_err(Outcome::refused))
    }
}

/// What a request has to get into, one after the other. Cheap to clone: clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Guards(Vec<Guard>);

impl Guards {
    /// None: everybody gets in.
    pub fn new() -> Self {
        Guards::default()
    }

    /// These, and then a further one.
    #[must_use]
    pub fn and(mut self, guard: impl Into<Guard>) -> Self {
        self.0.push(guard.into());
        self
    }

    /// Gets into all of them, or none: the first that refuses gives back what was taken.
    pub async fn enter(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Result<Permits, Outcome> {
        let mut permits = Vec::with_capacity(self.0.len());
        for guard in &self.0 {
            permits.push(guard.enter(caller, priority).await?);
        }
        Ok(Permits(Kept::Several(permits)))
    }

    /// The same without waiting. None when one of them may have to be waited for; nothing was done then.
    #[inline]
    pub fn enter_now(&self, caller: Option<&Caller<'_>>, priority: Priority) -> Option<Result<Permits, Outcome>> {
        match &*self.0 {
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
    /// Gives them back, and says how the work ended.
    pub fn release(self, work: Work) {
        match self.0 {
            Kept::One(permit) => permit.release(work),
            Kept::Several(permits) => permits.into_iter().for_each(|permit| permit.release(work)),
        }
    }
}
