//! Leases in flight: a place is held until it is released, or until its time to live has passed without a renewal.
//!
//! They are kept in one row, ordered by when they expire, and looked for by id one after the other. With 10,000 in
//! flight that is 160 KiB to walk through, a few microseconds; a map of ids would be several times larger, and every
//! store outside of this process has to write all of them down anyway.

use std::collections::VecDeque;

use super::{Op, State, StepResult, Time};
use crate::{Decision, DecisionParts, Lease, Quota, Reason, Timestamp};

/// What a `concurrency` limit has given out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leases {
    /// Ordered by expiry.
    held: VecDeque<Held>,
    /// When it was written.
    last: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    expires: Timestamp,
    lease: Lease,
}

impl Leases {
    /// Leases with the time at which each expires, the earliest first, written at `last`.
    pub fn from_entries(held: impl IntoIterator<Item = (Timestamp, Lease)>, last: Timestamp) -> Self {
        Leases { held: held.into_iter().map(|(expires, lease)| Held { expires, lease }).collect(), last }
    }

    /// The leases and when each expires, the earliest first; those are among them that have expired since it was
    /// written.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (Timestamp, Lease)> {
        self.held.iter().map(|held| (held.expires, held.lease))
    }

    pub(super) fn last(&self) -> Timestamp {
        self.last
    }

    /// How long after it was written the last of them expires.
    pub(super) fn until_new(&self) -> u64 {
        self.held.back().map_or(0, |held| held.expires.as_micros().saturating_sub(self.last.as_micros()))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.held.capacity() * size_of::<Held>()
    }

    /// Places that are free at a time.
    pub(super) fn remaining(&self, quota: &Quota, time: Time) -> u32 {
        let in_flight = (self.held.len() - self.gone(time)) as u64;
        u64::from(quota.capacity_u32()).saturating_sub(in_flight) as u32
    }

    /// How many have expired.
    fn gone(&self, time: Time) -> usize {
        self.held.partition_point(|held| held.expires <= time.at)
    }

    fn forget_first(&mut self, count: usize) {
        self.held.drain(..count);
        // A key that was busy once does not keep its room for ever.
        if self.held.capacity() > 16 && self.held.capacity() / 4 > self.held.len() {
            self.held.shrink_to(self.held.len() * 2);
        }
    }

    /// Holds a place until `expires`. Nearly always that is the last: only a shorter time to live than before puts it
    /// elsewhere.
    fn hold(&mut self, lease: Lease, expires: Timestamp) {
        let place = match self.held.back() {
            Some(latest) if latest.expires > expires => self.held.partition_point(|held| held.expires <= expires),
            _ => self.held.len(),
        };
        self.held.insert(place, Held { expires, lease });
    }
}

/// What is in flight after an operation: all that a decision about leases says. For stores that count them elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightCount {
    /// How many.
    pub count: u64,
    /// When so many will have expired that what was denied fits; none when it was not denied for want of a place.
    pub retry_at: Option<Timestamp>,
    /// When so many will have expired that another place is free; none when nothing is in flight.
    pub next_at: Option<Timestamp>,
    /// When all of them will have expired; none when nothing is in flight.
    pub new_at: Option<Timestamp>,
}

impl InFlightCount {
    /// The decision about `op` at the time `now`.
    pub fn decision(&self, quota: &Quota, op: Op, allowed: bool, now: Timestamp) -> Decision {
        let capacity = quota.capacity_u32();
        let never = !quota.supports(op) || matches!(op, Op::Check(cost) if cost.get() > u64::from(capacity));
        let reason = if never { Reason::CostExceedsCapacity } else { Reason::Concurrency };
        let span = |at: Timestamp| at.as_micros().saturating_sub(now.as_micros());
        DecisionParts {
            allowed,
            limit: capacity,
            remaining: u64::from(capacity).saturating_sub(self.count) as u32,
            retry_after: self.retry_at.map(span),
            next_after: self.next_at.map(span),
            reset_after: self.new_at.map_or(0, span),
            reason: (!allowed).then_some(reason),
        }
        .into()
    }

    /// Which of the leases in flight, counted from 0, has to expire before `need` more places are free; none when
    /// they are, or never will be.
    pub fn makes_room(quota: &Quota, in_flight: u64, need: u64) -> Option<u64> {
        let capacity = u64::from(quota.capacity_u32());
        let excess = (in_flight + need.min(capacity + 1)).checked_sub(capacity + 1)?;
        (need <= capacity).then_some(excess)
    }
}

/// [`step`](super::step) for leases.
pub(super) fn step(quota: &Quota, state: &mut State, op: Op, time: Time) -> StepResult {
    let leases = match std::mem::take(state) {
        State::Leases(leases) => leases,
        _ => Leases::default(),
    };
    let mut view = Concurrency { quota, gone: leases.gone(time), leases, time };
    let (allowed, changed) = view.act(op);
    let decision = view.look(op, allowed).decision(quota, op, allowed, view.now());
    *state = if view.leases.held.is_empty() { State::New } else { State::Leases(view.leases) };
    StepResult { decision, changed }
}

/// Leases at one time. What has expired is dropped when something is written, so that a look changes nothing.
struct Concurrency<'a> {
    quota: &'a Quota,
    leases: Leases,
    time: Time,
    /// How many have expired.
    gone: usize,
}

impl Concurrency<'_> {
    /// Does an operation; says whether it is allowed, and whether the leases are others now.
    fn act(&mut self, op: Op) -> (bool, bool) {
        let both = |done| (done, done);
        match op {
            Op::Check(cost) => (self.has_room(cost.get()), false),
            // A holder that asks again has lost the answer, and must not get a second place.
            Op::Admit(lease) => both(self.extend(lease) || (self.has_room(1) && self.hold(lease))),
            Op::Renew(lease) => both(self.extend(lease)),
            Op::Release(lease) => both(self.take_out(lease)),
            Op::Reset => {
                self.leases.held.clear();
                self.gone = 0;
                (true, true)
            }
            Op::Limit(_) | Op::Reserve(_) | Op::Refund(_) => (false, false),
        }
    }

    fn in_flight(&self) -> u64 {
        (self.leases.held.len() - self.gone) as u64
    }

    fn has_room(&self, need: u64) -> bool {
        need <= u64::from(self.leases.remaining(self.quota, self.time))
    }

    /// Takes a lease out that is held. Says whether it was.
    fn take_out(&mut self, lease: Lease) -> bool {
        let Some(place) = self.leases.held.range(self.gone..).position(|held| held.lease == lease) else {
            return false;
        };
        self.leases.held.remove(self.gone + place);
        self.written();
        true
    }

    fn extend(&mut self, lease: Lease) -> bool {
        self.take_out(lease) && self.hold(lease)
    }

    fn hold(&mut self, lease: Lease) -> bool {
        self.written();
        let expires = self.time.at.as_micros().saturating_add(self.quota.period_micros());
        self.leases.hold(lease, Timestamp::from_micros(expires));
        true
    }

    fn written(&mut self) {
        self.leases.forget_first(self.gone);
        self.gone = 0;
        self.leases.last = self.time.at;
    }

    /// What is in flight now.
    fn look(&self, op: Op, allowed: bool) -> InFlightCount {
        let need = match op {
            Op::Check(cost) => cost.get(),
            Op::Admit(_) => 1,
            // Nothing that waiting helps.
            _ => 0,
        };
        let count = self.in_flight();
        let at = |index: u64| self.leases.held[self.gone + index as usize].expires;
        let free = u64::from(self.leases.remaining(self.quota, self.time));
        InFlightCount {
            count,
            retry_at: InFlightCount::makes_room(self.quota, count, need).filter(|_| !allowed && need > 0).map(at),
            next_at: InFlightCount::makes_room(self.quota, count, free + 1).map(at),
            new_at: (count > 0).then(|| at(count - 1)),
        }
    }

    /// The caller's time.
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.time.at.as_micros() - self.time.behind)
    }
}
