//! Admission: concurrency guards, and then limits.

use super::{Action, Caller, ConcurrencyGuards, Enforcer, Outcome, Permits};
use crate::concurrency::{Completion, Priority};

/// Concurrency guards and then limits, in one call. A rejection releases what was taken, and reports [which
/// kind](Outcome::kind) of limit it was. Cheap to clone.
///
/// ```
/// use tidegate::concurrency::{Concurrency, PerKey, Priority, Completion};
/// use tidegate::enforce::{Admission, Caller, ConcurrencyGuards, LimitKind};
/// use tidegate::{Limiter, Quota, minutes, seconds};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::builder()
///     .limit("requests", Quota::token_bucket(10, seconds(1))?)
///     .limit("tokens", Quota::token_bucket(100_000, minutes(1))?)
///     .build()?;
/// let admission = Admission::new(
///     ConcurrencyGuards::new().and(Concurrency::fixed(100).reserve(10)).and(PerKey::new(4)),
///     limiter.enforcer("requests")?.and_budget("tokens")?,
/// );
///
/// match admission.admit(&Caller::new("alice"), 1_200, Priority::Critical).await {
///     Ok(admitted) => {
///         // The work.
///         admitted.release(Completion::Success);
///     }
///     Err(outcome) if outcome.kind() == Some(LimitKind::Concurrency) => println!("busy: {:?}", outcome.retry_after()),
///     Err(outcome) => println!("{outcome:?}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Admission {
    guards: ConcurrencyGuards,
    enforcer: Enforcer,
}

impl Admission {
    /// Guards how many are in flight, and then enforces limits; [`Enforcer::unlimited`] has none.
    pub fn new(guards: impl Into<ConcurrencyGuards>, enforcer: Enforcer) -> Self {
        Admission { guards: guards.into(), enforcer }
    }

    /// Admits a request that costs so much, or says why not; nothing is taken then. Who is on a deny list does not get as
    /// far as the guards.
    pub async fn admit(&self, caller: &Caller<'_>, cost: u64, priority: Priority) -> Result<AdmissionPermit, Outcome> {
        if self.enforcer.denies(caller) {
            let outcome = self.enforcer.apply(caller, cost, Action::Check).await;
            // By now the list may be another.
            if !outcome.is_allowed() {
                return Err(outcome);
            }
        }
        let permits = self.enforcer.admit(&self.guards, Some(caller), priority).await?;
        let outcome = self.enforcer.apply(caller, cost, Action::Limit).await;
        // Permits that are dropped are given back, and say nothing of work that was never begun.
        if outcome.is_allowed() { Ok(AdmissionPermit { permits, outcome }) } else { Err(outcome) }
    }
}

/// A request that may go on, in flight until it is released or dropped.
#[derive(Debug)]
#[must_use = "what is dropped is no longer in flight"]
pub struct AdmissionPermit {
    permits: Permits,
    outcome: Outcome,
}

impl AdmissionPermit {
    /// What the limits said.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The permits that it holds. One of them [may be lost](Permits::lost) while the work goes on.
    pub fn permits(&self) -> &Permits {
        &self.permits
    }

    /// Ends it, and says how the work went.
    pub fn release(self, work: Completion) {
        self.permits.release(work);
    }
}
