//! How many, how often and how much, in one question.

use super::{Caller, Enforcer, Guards, Outcome, Permits, Step};
use crate::concurrency::{Priority, Work};

/// How many at once, how often, and how much in all, in that order and in one question. What refuses first gives back
/// what was taken, and says [which it was](Outcome::axis). Cheap to clone.
///
/// ```
/// use tidegate::concurrency::{Concurrency, PerKey, Priority, Work};
/// use tidegate::enforce::{Admission, Axis, Caller, Enforcer, Guards};
/// use tidegate::{Limiter, Quota, minutes, seconds};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::builder()
///     .limit("requests", Quota::token_bucket(10, seconds(1))?)
///     .limit("tokens", Quota::token_bucket(100_000, minutes(1))?)
///     .build()?;
/// let admission = Admission::new(
///     Guards::new().and(Concurrency::fixed(100).reserve(10)).and(PerKey::new(4)),
///     Enforcer::new(&limiter, "requests").and_budget("tokens"),
/// );
///
/// match admission.admit(&Caller::new("alice"), 1_200, Priority::Critical).await {
///     Ok(admitted) => {
///         // The work.
///         admitted.release(Work::Done);
///     }
///     Err(outcome) if outcome.axis() == Some(Axis::Concurrency) => println!("busy: {:?}", outcome.retry_after()),
///     Err(outcome) => println!("{outcome:?}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Admission {
    guards: Guards,
    enforcer: Enforcer,
}

impl Admission {
    /// Guards how many are in flight, and then enforces limits; [`Enforcer::unlimited`] has none.
    pub fn new(guards: impl Into<Guards>, enforcer: Enforcer) -> Self {
        Admission { guards: guards.into(), enforcer }
    }

    /// Admits a request that costs so much, or says why not; nothing is taken then. Who is on a deny list does not get as
    /// far as the guards.
    pub async fn admit(&self, caller: &Caller<'_>, cost: u64, priority: Priority) -> Result<Admitted, Outcome> {
        if self.enforcer.denies(caller) {
            let outcome = self.enforcer.ask(caller, cost, Step::Look).await;
            // By now the list may be another.
            if !outcome.is_allowed() {
                return Err(outcome);
            }
        }
        let permits = self.enforcer.enter(&self.guards, Some(caller), priority).await?;
        let outcome = self.enforcer.ask(caller, cost, Step::Take).await;
        // Permits that are dropped are given back, and say nothing of work that was never begun.
        if outcome.is_allowed() { Ok(Admitted { permits, outcome }) } else { Err(outcome) }
    }
}

/// A request that may go on, in flight until it is released or dropped.
#[derive(Debug)]
#[must_use = "what is dropped is no longer in flight"]
pub struct Admitted {
    permits: Permits,
    outcome: Outcome,
}

impl Admitted {
    /// What the limits said.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Ends it, and says how the work went.
    pub fn release(self, work: Work) {
        self.permits.release(work);
    }
}
