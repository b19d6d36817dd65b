//! Admission: concurrency guards, and then limits.

use super::{Action, Caller, ConcurrencyGuards, Enforcer, Outcome, Permits};
use crate::concurrency::{Completion, Priority};

/// Concurrency guards and then limits, in one call. A rejection releases what was taken, and reports the
/// [kind](Outcome::kind) of limit. Cheap to clone.
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
    /// Creates an admission that guards the number of requests in flight, and then enforces limits.
    /// [`Enforcer::unlimited`] has no limits.
    pub fn new(guards: impl Into<ConcurrencyGuards>, enforcer: Enforcer) -> Self {
        Admission { guards: guards.into(), enforcer }
    }

    /// Admits a request of this cost, or returns the outcome that rejects it. A rejection takes nothing. A caller on a
    /// deny list never reaches the guards.
    pub async fn admit(&self, caller: &Caller<'_>, cost: u64, priority: Priority) -> Result<AdmissionPermit, Outcome> {
        if self.enforcer.denies(caller) {
            let outcome = self.enforcer.apply(caller, cost, Action::Check).await;
            // The deny list may have changed meanwhile.
            if !outcome.is_allowed() {
                return Err(outcome);
            }
        }
        let permits = self.enforcer.admit(&self.guards, Some(caller), priority).await?;
        let outcome = self.enforcer.apply(caller, cost, Action::Limit).await;
        // Dropped permits are released, and report nothing about work that never began.
        if outcome.is_allowed() { Ok(AdmissionPermit { permits, outcome }) } else { Err(outcome) }
    }
}

/// An admitted request, in flight until it is released or dropped.
#[derive(Debug)]
#[must_use = "what is dropped is no longer in flight"]
pub struct AdmissionPermit {
    permits: Permits,
    outcome: Outcome,
}

impl AdmissionPermit {
    /// Returns the outcome of the limits.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Returns the permits of the request. One of them [may be lost](Permits::lost) while the work goes on.
    pub fn permits(&self) -> &Permits {
        &self.permits
    }

    /// Releases the permits, and reports the outcome of the work.
    pub fn release(self, work: Completion) {
        self.permits.release(work);
    }
}
