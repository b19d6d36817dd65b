//! Leases in flight. A lease counts until it is released, or until it expires without a renewal.
//!
//! Leases are kept in a row, ordered by expiry. A search for an id scans a short row. For a long row, a map from id to
//! expiry finds the place.

use std::collections::{BTreeMap, VecDeque};

use super::{Op, State, StepResult, StepTime};
use crate::{Decision, DecisionParts, Lease, Quota, Reason, Timestamp};

/// The state of a `concurrency` limit: its leases in flight.
#[derive(Debug, Clone, Default)]
pub struct Leases {
    /// Ordered by expiry, and by id where several expire at the same time.
    entries: VecDeque<LeaseEntry>,
    /// The time of the write.
    last: Timestamp,
    /// `None` while there are few leases.
    index: Option<Box<LeaseIndex>>,
}

/// Ignores the index, which only makes searches faster.
impl PartialEq for Leases {
    fn eq(&self, other: &Self) -> bool {
        (&self.entries, self.last) == (&other.entries, other.last)
    }
}

impl Eq for Leases {}

/// A lease and the time it expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LeaseEntry {
    expires: Timestamp,
    lease: Lease,
}

/// The expiry of each lease by id.
#[derive(Debug, Clone)]
enum LeaseIndex {
    /// Not built yet. Counts the searches without it.
    Pending { searches: u32 },
    /// Built. It may still contain leases that expired and left the row.
    Built(BTreeMap<Lease, Timestamp>),
}

/// With fewer leases, a scan takes less than ten microseconds. An index would be several times their size.
const MIN_INDEXED: usize = 16_384;
/// Building the index costs as much as several searches. A state that is decoded for one operation never needs it.
const SEARCHES_BEFORE_INDEX: u32 = 8;
/// The largest size of an entry in a map whose nodes are as empty as they can be.
const INDEX_ENTRY_BYTES: usize = 48;

impl Leases {
    /// Creates the state from leases and the times they expire, the earliest first, written at `last`.
    pub fn from_entries(entries: impl IntoIterator<Item = (Timestamp, Lease)>, last: Timestamp) -> Self {
        let mut entries: Vec<_> = entries.into_iter().map(|(expires, lease)| LeaseEntry { expires, lease }).collect();
        if !entries.is_sorted() {
            entries.sort_unstable();
        }
        Leases { entries: entries.into(), last, index: None }
    }

    /// Returns the leases and the times they expire, the earliest first. Leases that expired since the state was written
    /// are included.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (Timestamp, Lease)> {
        self.entries.iter().map(|entry| (entry.expires, entry.lease))
    }

    pub(super) fn last(&self) -> Timestamp {
        self.last
    }

    /// Returns the time from the write until the last lease expires.
    pub(super) fn until_new(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.expires.as_micros().saturating_sub(self.last.as_micros()))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let indexed = match self.index.as_deref() {
            Some(LeaseIndex::Built(expiries)) => expiries.len(),
            _ => 0,
        };
        self.entries.capacity() * size_of::<LeaseEntry>() + indexed * INDEX_ENTRY_BYTES
    }

    /// Returns how many leases can be admitted at a time.
    pub(super) fn remaining(&self, quota: &Quota, time: StepTime) -> u32 {
        let in_flight = (self.entries.len() - self.expired(time)) as u64;
        u64::from(quota.capacity_u32()).saturating_sub(in_flight) as u32
    }

    /// Returns how many leases have expired at a time.
    fn expired(&self, time: StepTime) -> usize {
        self.entries.partition_point(|entry| entry.expires <= time.at)
    }

    fn drop_first(&mut self, count: usize) {
        self.entries.drain(..count);
        // A key that was busy once must not keep its memory forever.
        if self.entries.capacity() > 16 && self.entries.capacity() / 4 > self.entries.len() {
            self.entries.shrink_to(self.entries.len() * 2);
        }
        let is_stale = match self.index.as_deref() {
            Some(LeaseIndex::Built(expiries)) => expiries.len() / 2 > self.entries.len(),
            _ => false,
        };
        if is_stale || self.entries.len() < MIN_INDEXED / 2 {
            self.index = None;
        }
    }

    /// Returns the place of a lease among those after the first `expired`.
    fn find(&mut self, lease: Lease, expired: usize) -> Option<usize> {
        if self.entries.len() < MIN_INDEXED {
            return self.search(lease, expired);
        }
        match &mut **self.index.get_or_insert_with(|| Box::new(LeaseIndex::Pending { searches: 0 })) {
            LeaseIndex::Pending { searches } if *searches < SEARCHES_BEFORE_INDEX => {
                *searches += 1;
                self.search(lease, expired)
            }
            index => {
                if let LeaseIndex::Pending { .. } = index {
                    let expiries = self.entries.iter().map(|entry| (entry.lease, entry.expires));
                    *index = LeaseIndex::Built(expiries.collect());
                }
                let LeaseIndex::Built(expiries) = index else { return None };
                let entry = LeaseEntry { expires: *expiries.get(&lease)?, lease };
                self.entries.binary_search(&entry).ok().filter(|place| *place >= expired)
            }
        }
    }

    fn search(&self, lease: Lease, expired: usize) -> Option<usize> {
        let place = self.entries.range(expired..).position(|entry| entry.lease == lease)?;
        Some(expired + place)
    }

    fn remove(&mut self, place: usize) {
        let removed = self.entries.remove(place);
        if let (Some(entry), Some(LeaseIndex::Built(expiries))) = (removed, self.index.as_deref_mut()) {
            expiries.remove(&entry.lease);
        }
    }

    /// Inserts a lease by its expiry. That is nearly always the end, except after the time to live was shortened.
    fn insert(&mut self, lease: Lease, expires: Timestamp) {
        let entry = LeaseEntry { expires, lease };
        let place = match self.entries.back() {
            Some(latest) if *latest > entry => self.entries.partition_point(|other| *other < entry),
            _ => self.entries.len(),
        };
        self.entries.insert(place, entry);
        if let Some(LeaseIndex::Built(expiries)) = self.index.as_deref_mut() {
            expiries.insert(lease, expires);
        }
    }
}

/// The number of leases in flight after an operation, for stores that count leases in their own way. A decision needs
/// nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightCount {
    /// The number of leases in flight.
    pub count: u64,
    /// The time at which enough leases will have expired to admit the denied request. `None` when the request was not
    /// denied for lack of room.
    pub retry_at: Option<Timestamp>,
    /// The time at which enough leases will have expired to admit one more. `None` when nothing is in flight.
    pub next_at: Option<Timestamp>,
    /// The time at which all leases will have expired. `None` when nothing is in flight.
    pub new_at: Option<Timestamp>,
}

impl InFlightCount {
    /// Returns the decision about `op` at the time `now`.
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

    /// Returns the index of the lease that must expire before `need` more fit, counted from the first to expire. `None`
    /// when they fit now, and when they never will.
    pub fn blocking_lease(quota: &Quota, in_flight: u64, need: u64) -> Option<u64> {
        let capacity = u64::from(quota.capacity_u32());
        let excess = (in_flight + need.min(capacity + 1)).checked_sub(capacity + 1)?;
        (need <= capacity).then_some(excess)
    }
}

/// [`step`](super::step) for leases.
pub(super) fn step(quota: &Quota, state: &mut State, op: Op, time: StepTime) -> StepResult {
    let leases = match std::mem::take(state) {
        State::Leases(leases) => leases,
        _ => Leases::default(),
    };
    let mut view = CurrentLeases { quota, expired: leases.expired(time), leases, time };
    let (allowed, changed) = view.act(op);
    let decision = view.in_flight_count(op, allowed).decision(quota, op, allowed, view.now());
    *state = if view.leases.entries.is_empty() { State::New } else { State::Leases(view.leases) };
    StepResult { decision, changed }
}

/// The leases of one key at one time. A check changes nothing: only the next write drops expired leases.
struct CurrentLeases<'a> {
    quota: &'a Quota,
    leases: Leases,
    time: StepTime,
    /// The number of expired leases.
    expired: usize,
}

impl CurrentLeases<'_> {
    /// Applies an operation. Returns whether it is allowed, and whether the leases changed.
    fn act(&mut self, op: Op) -> (bool, bool) {
        let allowed_and_changed = |done| (done, done);
        match op {
            Op::Check(cost) => (self.has_room(cost.get()), false),
            // A caller that admits its lease again has lost the first answer. It must not get a second place.
            Op::Admit(lease) => allowed_and_changed(self.renew(lease) || (self.has_room(1) && self.insert(lease))),
            Op::Renew(lease) => allowed_and_changed(self.renew(lease)),
            Op::Release(lease) => allowed_and_changed(self.remove(lease)),
            Op::Reset => {
                self.leases = Leases::default();
                self.expired = 0;
                (true, true)
            }
            Op::Limit(_) | Op::Reserve(_) | Op::Refund(_) => (false, false),
        }
    }

    fn in_flight(&self) -> u64 {
        (self.leases.entries.len() - self.expired) as u64
    }

    fn has_room(&self, need: u64) -> bool {
        need <= u64::from(self.leases.remaining(self.quota, self.time))
    }

    /// Removes a lease that has not expired. Returns whether it was there.
    fn remove(&mut self, lease: Lease) -> bool {
        let Some(place) = self.leases.find(lease, self.expired) else { return false };
        self.leases.remove(place);
        self.drop_expired();
        true
    }

    fn renew(&mut self, lease: Lease) -> bool {
        self.remove(lease) && self.insert(lease)
    }

    fn insert(&mut self, lease: Lease) -> bool {
        self.drop_expired();
        let expires = self.time.at.as_micros().saturating_add(self.quota.period_micros());
        self.leases.insert(lease, Timestamp::from_micros(expires));
        true
    }

    fn drop_expired(&mut self) {
        self.leases.drop_first(self.expired);
        self.expired = 0;
        self.leases.last = self.time.at;
    }

    /// Returns the leases in flight now, and the times at which more will fit.
    fn in_flight_count(&self, op: Op, allowed: bool) -> InFlightCount {
        let need = match op {
            Op::Check(cost) => cost.get(),
            Op::Admit(_) => 1,
            // Waiting does not help.
            _ => 0,
        };
        let count = self.in_flight();
        let at = |index: u64| self.leases.entries[self.expired + index as usize].expires;
        let free = u64::from(self.leases.remaining(self.quota, self.time));
        InFlightCount {
            count,
            retry_at: InFlightCount::blocking_lease(self.quota, count, need).filter(|_| !allowed && need > 0).map(at),
            next_at: InFlightCount::blocking_lease(self.quota, count, free + 1).map(at),
            new_at: (count > 0).then(|| at(count - 1)),
        }
    }

    /// Returns the caller's time.
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.time.at.as_micros() - self.time.lag)
    }
}
