//! What becomes of a request where it stands.

use super::demand::Demand;
use super::{Incoming, RateLimit};
use crate::enforce::{Answer, Caller, Outcome, Step};

/// What becomes of a request where it stands: as little as a layer needs to go on with it.
#[allow(clippy::large_enum_variant, reason = "it is looked at where it is made")]
pub(crate) enum AtOnce {
    /// It was left alone.
    Skipped,
    /// It is admitted, and there is nothing to be said of that.
    Admitted,
    /// Its limits have said this, and nothing is left but to tell it.
    Answered(Outcome),
    /// Nothing was done yet: its limits have to be waited for.
    Waits(Demand),
    /// Nothing was done yet: there is more to it.
    Demands(Demand),
}

impl RateLimit {
    /// What becomes of a request where it stands.
    pub(crate) fn at_once(&self, incoming: &Incoming<'_>) -> AtOnce {
        // As most are: counted under its client's address, and nobody wants to know more. What would be put together for
        // the others is as much work as the decision.
        if let Some(enforcer) = self.usual()
            && let Some(client) = self.client(incoming)
        {
            let caller = Caller::of(client.key(), Some(client.address()));
            return match enforcer.answer_now(&caller, 1, Step::Take) {
                Some(Answer::Yes(yes)) if self.has_last_word() => AtOnce::Answered(yes.outcome()),
                Some(Answer::Yes(_)) => AtOnce::Admitted,
                Some(Answer::Other(outcome)) if outcome.is_allowed() && !self.has_last_word() => AtOnce::Admitted,
                Some(Answer::Other(outcome)) => AtOnce::Answered(outcome),
                None => AtOnce::Waits(Demand::of(caller)),
            };
        }
        self.demand(incoming).map_or(AtOnce::Skipped, AtOnce::Demands)
    }
}
