//! What becomes of a request where it stands.

use std::net::IpAddr;

use tidegate_core::{Decision, Key, StoreError};

use super::demand::Demand;
use super::headers::Told;
use super::rate_limit::{KeyOf, stand_in};
use super::{Incoming, RateLimit};
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

// Nearly every request has one key, most often the address that it comes from, and is counted under that by one limit that
// admits it. What is done about those is close together, and everything else is elsewhere: a server comes here with nothing
// of it in the cache.
impl RateLimit {
    /// What becomes of a request where it stands, under a protocol that tells this much.
    pub(crate) fn at_once(&self, incoming: &Incoming<'_>, tells: Tells) -> AtOnce<'_> {
        let Some(enforcer) = self.usual() else { return self.at_length(incoming) };
        if let Some(key) = self.own_key() {
            return self.keyed(enforcer, key, incoming, tells);
        }
        match self.plain_peer(incoming) {
            Some(peer) => self.decided(enforcer, Key::from(peer), tells, || Some(IpAddr::V4(peer))),
            None => self.found(enforcer, incoming, tells),
        }
    }

    /// The same, of a request whose client has to be found.
    #[inline(never)]
    fn found<'a>(&'a self, enforcer: &'a Enforcer, incoming: &Incoming<'_>, tells: Tells) -> AtOnce<'a> {
        match self.client(incoming) {
            Some(client) => self.decided(enforcer, client.key(), tells, || Some(client.address())),
            None => AtOnce::Answered(enforcer.without_key()),
        }
    }

    /// The same, of a request that has a key of its own.
    #[inline(never)]
    fn keyed<'a>(&'a self, enforcer: &'a Enforcer, key: &KeyOf, incoming: &Incoming<'_>, tells: Tells) -> AtOnce<'a> {
        let client = self.client(incoming);
        match key(&incoming.with_client(client.as_ref())).or_else(|| stand_in(client)) {
            Some(key) => self.decided(enforcer, key, tells, || client.map(|client| client.address())),
            None => AtOnce::Answered(enforcer.without_key()),
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
        address: impl Fn() -> Option<IpAddr>,
    ) -> AtOnce<'a> {
        let Some(limit) = enforcer.plainly() else { return self.second_look(enforcer, key, address()) };
        let answer = limit.take(&key);
        let decision = match &answer {
            Some(Ok(decision)) => decision,
            Some(broken) => return told_to_all(&limit, broken, &key, address()),
            None => return AtOnce::Waits(Demand::of(Caller::of(key, address()))),
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
            Err(limit) => told_to_all(&limit, &Ok(*decision), &key, address()),
        }
    }

    /// Goes on with a request whose limit is not as it usually is.
    #[inline(never)]
    fn second_look(&self, enforcer: &Enforcer, key: Key<'static>, address: Option<IpAddr>) -> AtOnce<'static> {
        let caller = Caller::of(key, address);
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
    address: Option<IpAddr>,
) -> AtOnce<'static> {
    AtOnce::Answered(limit.outcome(answer, &Caller::of(key.borrow(), address)))
}
