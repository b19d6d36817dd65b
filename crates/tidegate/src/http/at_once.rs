//! What becomes of a request where it stands.

use tidegate_core::{Decision, Key, StoreError};

use super::demand::Demand;
use super::headers::Told;
use super::{Client, Incoming, RateLimit};
use crate::enforce::{Caller, Denial, Enforcer, Outcome, Plainly, Step};
use crate::tower::Tells;

/// What becomes of a request where it stands: as little as a layer needs to go on with it.
#[allow(clippy::large_enum_variant, reason = "it is looked at where it is made")]
pub(crate) enum AtOnce<'a> {
    /// It was left alone.
    Skipped,
    /// It is admitted, and there is nothing to be said of that.
    Admitted,
    /// It is admitted, and this is to be said of that.
    Told(Told),
    /// Its limit has said no, and nothing is left but to tell it.
    Denied(Denial<'a>),
    /// Its limits have said this, and nothing is left but to tell it.
    Answered(Outcome),
    /// Nothing was done yet: its limits have to be waited for.
    Waits(Demand),
    /// Nothing was done yet: there is more to it.
    Demands(Demand),
}

// Nearly every request comes from an address that is its client's, and is counted under that by one limit that admits it.
// What is done about those is close together, and everything else is elsewhere: a server comes here with nothing of it in
// the cache.
impl RateLimit {
    /// What becomes of a request where it stands, under a protocol that tells this much.
    pub(crate) fn at_once(&self, incoming: &Incoming<'_>, tells: Tells) -> AtOnce<'_> {
        match self.usual() {
            Some(enforcer) => match self.plain_peer(incoming) {
                Some(peer) => self.decided(enforcer, Key::from(peer), tells, || self.client_at(peer)),
                None => self.found(enforcer, incoming, tells),
            },
            None => self.at_length(incoming),
        }
    }

    /// The same, of a request whose client has to be found.
    #[inline(never)]
    fn found<'a>(&'a self, enforcer: &'a Enforcer, incoming: &Incoming<'_>, tells: Tells) -> AtOnce<'a> {
        match self.client(incoming) {
            Some(client) => self.decided(enforcer, client.key(), tells, || client),
            None => self.at_length(incoming),
        }
    }

    /// The same, of a request about which there is more to be known.
    #[inline(never)]
    fn at_length(&self, incoming: &Incoming<'_>) -> AtOnce<'static> {
        self.demand(incoming).map_or(AtOnce::Skipped, AtOnce::Demands)
    }

    /// The same, of one that is as usual.
    #[inline(always)]
    fn decided<'a>(
        &'a self,
        enforcer: &'a Enforcer,
        key: Key<'static>,
        tells: Tells,
        client: impl Fn() -> Client,
    ) -> AtOnce<'a> {
        let Some(limit) = enforcer.plainly() else { return self.second_look(enforcer, key, client()) };
        let answer = limit.take(&key);
        let decision = match &answer {
            Some(Ok(decision)) => decision,
            Some(broken) => return told_to_all(&limit, broken, &key, client()),
            None => return AtOnce::Waits(Demand::of(Caller::of(key, Some(client().address())))),
        };
        if decision.is_ordinary() {
            if !self.has_last_word(tells) {
                return AtOnce::Admitted;
            }
            if tells == Tells::Headers
                && let Some(told) = self.foretold(&limit, decision)
            {
                return AtOnce::Told(told);
            }
            return AtOnce::Answered(limit.admission(decision));
        }
        match limit.denial(decision) {
            Ok(denial) => AtOnce::Denied(denial),
            Err(limit) => told_to_all(&limit, &Ok(*decision), &key, client()),
        }
    }

    /// Goes on with a request whose limit is not as it usually is.
    #[inline(never)]
    fn second_look(&self, enforcer: &Enforcer, key: Key<'static>, client: Client) -> AtOnce<'static> {
        let caller = Caller::of(key, Some(client.address()));
        match enforcer.ask_now(&caller, 1, Step::Take) {
            Some(outcome) => AtOnce::Answered(outcome),
            None => AtOnce::Waits(Demand::of(caller)),
        }
    }
}

/// What becomes of a request when others are told of it as well.
#[inline(never)]
fn told_to_all(
    limit: &Plainly<'_>,
    answer: &Result<Decision, StoreError>,
    key: &Key<'_>,
    client: Client,
) -> AtOnce<'static> {
    AtOnce::Answered(limit.outcome(answer, &Caller::of(key.borrow(), Some(client.address()))))
}
