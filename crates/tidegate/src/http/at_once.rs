//! What becomes of a request where it stands.

use tidegate_core::Key;

use super::demand::Demand;
use super::{Client, Incoming, RateLimit};
use crate::enforce::{Caller, Enforcer, Outcome, Said, Step};
use crate::limiter::Unsaid;

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
    // Nearly every request is counted under its client's address by one limit that admits it. What is done about those is
    // here, close together, and everything else is elsewhere: a server comes here with nothing of it in the cache.
    pub(crate) fn at_once(&self, incoming: &Incoming<'_>) -> AtOnce {
        if let Some(enforcer) = self.usual()
            && let Some(client) = self.client(incoming)
        {
            let key = client.key();
            let said = enforcer.say_now(&key);
            return match &said {
                Ok(said) if !self.has_last_word() && said.is_ordinary() => AtOnce::Admitted,
                Ok(said) if let Some(allowed) = said.allowed() => AtOnce::Answered(allowed),
                _ => self.go_on(enforcer, client, key, said),
            };
        }
        self.at_length(incoming)
    }

    /// The same, of a request about which there is more to be known.
    #[inline(never)]
    fn at_length(&self, incoming: &Incoming<'_>) -> AtOnce {
        self.demand(incoming).map_or(AtOnce::Skipped, AtOnce::Demands)
    }

    /// Goes on with a usual request, once the shortest way has been tried.
    #[inline(never)]
    fn go_on(&self, enforcer: &Enforcer, client: Client, key: Key<'static>, said: Result<Said<'_>, Unsaid>) -> AtOnce {
        let caller = Caller::of(key, Some(client.address()));
        let outcome = match said {
            Ok(said) => Some(said.outcome(enforcer, &caller)),
            Err(Unsaid::SecondLook) => enforcer.ask_now(&caller, 1, Step::Take),
            Err(Unsaid::Waits) => None,
        };
        match outcome {
            Some(outcome) if outcome.is_allowed() && !self.has_last_word() => AtOnce::Admitted,
            Some(outcome) => AtOnce::Answered(outcome),
            None => AtOnce::Waits(Demand::of(caller)),
        }
    }
}
