//! The present tenants of a fair limit, each with an id while it is present.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tidegate_core::Timestamp;

use super::Settings;
use super::share::Load;

/// A place in the queue of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The round in which it is served: each caller has one call in each round, however many of its calls wait.
    pub(super) round: u64,
    /// The number of the event when it came.
    pub(super) number: u64,
}

/// A call in the queue of a tenant.
pub(super) struct WaitingCall {
    caller: Option<u64>,
    pub(super) waker: Option<Waker>,
}

/// A caller of a tenant.
#[derive(Default)]
struct Caller {
    waiting: usize,
    /// The round of its next call.
    next_round: u64,
}

/// A present tenant.
pub(super) struct Tenant {
    /// None for the place that tenants beyond the maximum share.
    name: Option<Arc<str>>,
    pub(super) weight: u32,
    pub(super) guarantee: u32,
    pub(super) in_flight: u32,
    /// The waiting calls in order. A call that is not here any more got its slot.
    pub(super) waiting: BTreeMap<Place, WaitingCall>,
    /// The round of the call that was served last.
    round: u64,
    /// The callers with waiting calls, and those that were served in this round.
    callers: HashMap<u64, Caller>,
    /// The number of the event when it last got a slot.
    pub(super) served: u64,
    /// When it last had a request or returned a slot.
    pub(super) seen: Timestamp,
}

/// The rank of a tenant with waiting callers; the lowest is served first. Tenants below their guarantees come before those
/// that can only borrow. Then the load decides, and between equal loads the longest time since a slot or since the first
/// caller came. So equals take turns, however many callers of one of them wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    borrows: bool,
    load: Load,
    since: u64,
    pub(super) id: usize,
}

impl Tenant {
    pub(super) fn unused_guarantee(&self) -> u32 {
        self.guarantee.saturating_sub(self.in_flight)
    }

    pub(super) fn is_below_guarantee(&self) -> bool {
        self.in_flight < self.guarantee
    }

    /// Returns whether it has no slot and no waiting caller.
    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty()
    }

    /// Returns whether a caller has a waiting call.
    pub(super) fn has_waiting(&self, caller: u64) -> bool {
        self.callers.get(&caller).is_some_and(|caller| caller.waiting > 0)
    }

    /// Adds a call to the queue, and returns its place. `number` is that of the event.
    pub(super) fn push(&mut self, number: u64, caller: Option<u64>) -> Place {
        let mut round = self.round;
        if let Some(caller) = caller {
            // Callers that were served in earlier rounds are as good as new.
            if self.callers.len() > 64 + 2 * self.waiting.len() {
                self.callers.retain(|_, caller| caller.waiting > 0 || caller.next_round > round);
            }
            let caller = self.callers.entry(caller).or_default();
            round = round.max(caller.next_round);
            caller.next_round = round + 1;
            caller.waiting += 1;
        }
        let place = Place { round, number };
        self.waiting.insert(place, WaitingCall { caller, waker: None });
        place
    }

    /// Removes the first call from the queue, which gets its slot, and returns its waker.
    pub(super) fn pop(&mut self) -> Option<Waker> {
        let (place, call) = self.waiting.pop_first()?;
        self.round = place.round;
        self.forget(call)
    }

    /// Removes a call from the queue that gave up, and returns its waker.
    pub(super) fn remove(&mut self, place: Place) -> Option<Waker> {
        let call = self.waiting.remove(&place)?;
        self.forget(call)
    }

    fn forget(&mut self, call: WaitingCall) -> Option<Waker> {
        if self.waiting.is_empty() {
            self.callers.clear();
        } else if let Some(caller) = call.caller.and_then(|caller| self.callers.get_mut(&caller)) {
            caller.waiting -= 1;
            if caller.waiting == 0 {
                // Calls that gave up use no rounds.
                caller.next_round = caller.next_round.min(self.round + 1);
            }
        }
        call.waker
    }

    /// Returns its rank, if a caller waits.
    pub(super) fn rank(&self, id: usize) -> Option<Rank> {
        let load = Load { in_flight: self.in_flight, weight: self.weight };
        let (first, _) = self.waiting.first_key_value()?;
        Some(Rank { borrows: !self.is_below_guarantee(), load, since: self.served.max(first.number), id })
    }
}

/// The present tenants. Their number is bounded: beyond [`Settings::max_tenants`], tenants without a weight of their own share
/// one more place.
pub(super) struct Tenants {
    places: Vec<Option<Tenant>>,
    empty: Vec<usize>,
    by_name: HashMap<Arc<str>, usize>,
    /// The shared place, while a tenant is there.
    shared: Option<usize>,
    /// How many tenants have a place without a weight of their own, the shared place not counted.
    unweighted: usize,
    /// The sum of the weights of all present tenants.
    pub(super) weights: u64,
    /// Since when a tenant may have been idle: one entry for each tenant, and never later than it has been.
    checks: BinaryHeap<Reverse<(Timestamp, usize)>>,
}

impl Tenants {
    pub(super) fn new() -> Self {
        Tenants {
            places: Vec::new(),
            empty: Vec::new(),
            by_name: HashMap::new(),
            shared: None,
            unweighted: 0,
            weights: 0,
            checks: BinaryHeap::new(),
        }
    }

    /// Returns the id of a tenant, if it is present.
    pub(super) fn find(&self, name: &str, settings: &Settings) -> Option<usize> {
        self.by_name.get(name).copied().or_else(|| {
            let shares = !settings.weights.contains_key(name) && self.unweighted >= settings.max_tenants;
            self.shared.filter(|_| shares)
        })
    }

    /// Adds a tenant that is not present. All guarantees must be recomputed then.
    pub(super) fn add(&mut self, name: &str, settings: &Settings, now: Timestamp) -> usize {
        let own_weight = settings.weights.get(name).copied();
        let has_place = own_weight.is_some() || self.unweighted < settings.max_tenants;
        let name = has_place.then(|| Arc::<str>::from(name));
        let id = self.empty.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        match &name {
            Some(name) => _ = self.by_name.insert(Arc::clone(name), id),
            None => self.shared = Some(id),
        }
        self.unweighted += usize::from(has_place && own_weight.is_none());
        let weight = own_weight.unwrap_or(settings.default_weight);
        self.weights += u64::from(weight);
        self.places[id] = Some(Tenant {
            name,
            weight,
            guarantee: 0,
            in_flight: 0,
            waiting: BTreeMap::new(),
            round: 0,
            callers: HashMap::new(),
            served: 0,
            seen: now,
        });
        self.checks.push(Reverse((now, id)));
        id
    }

    /// Removes the tenants that are absent by now. Returns whether there were any: then all guarantees must be recomputed.
    pub(super) fn remove_absent(&mut self, settings: &Settings, now: Timestamp) -> bool {
        let before = self.len();
        let is_over = |since: Timestamp| now.since(since) >= settings.idle_after;
        while let Some(Reverse((_, id))) = self.checks.peek().copied().filter(|Reverse((since, _))| is_over(*since)) {
            self.checks.pop();
            // A busy tenant is idle from now on at the earliest.
            let since = if self[id].is_idle() { self[id].seen } else { now };
            if is_over(since) {
                self.remove(id, settings);
            } else {
                self.checks.push(Reverse((since, id)));
            }
        }
        self.len() < before
    }

    fn remove(&mut self, id: usize, settings: &Settings) {
        let tenant = self.places[id].take().expect("only present tenants are checked");
        self.empty.push(id);
        self.weights -= u64::from(tenant.weight);
        match tenant.name {
            Some(name) => {
                self.by_name.remove(&name);
                self.unweighted -= usize::from(!settings.weights.contains_key(&*name));
            }
            None => self.shared = None,
        }
    }

    /// Returns how long until a tenant could be absent.
    pub(super) fn until_next_check(&self, settings: &Settings, now: Timestamp) -> Duration {
        let idle = self.checks.peek().map_or(Duration::ZERO, |Reverse((since, _))| now.since(*since));
        settings.idle_after.saturating_sub(idle)
    }

    /// Returns all tenants with their ids.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Tenant)> {
        self.places.iter_mut().enumerate().filter_map(|(id, tenant)| Some((id, tenant.as_mut()?)))
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.empty.len()
    }
}

impl Index<usize> for Tenants {
    type Output = Tenant;

    fn index(&self, id: usize) -> &Tenant {
        self.places[id].as_ref().expect("an id is used only while its tenant is present")
    }
}

impl IndexMut<usize> for Tenants {
    fn index_mut(&mut self, id: usize) -> &mut Tenant {
        self.places[id].as_mut().expect("an id is used only while its tenant is present")
    }
}
