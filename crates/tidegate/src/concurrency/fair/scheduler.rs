//! The scheduler of a fair limit: counts the slots of each tenant and selects the next caller. Without a clock.

use std::collections::BTreeSet;
use std::task::Waker;
use std::time::Duration;

use tidegate_core::Timestamp;

use super::Settings;
use super::share::{admits, guarantee};
use super::tenants::{Place, Rank, Tenant, Tenants};

/// The slots, and the callers that wait for one.
///
/// Between two calls, no caller waits that may have a slot. So a new caller overtakes none, and need not be compared with
/// those that wait.
pub(super) struct Scheduler {
    settings: Settings,
    pub(super) limit: u32,
    pub(super) in_flight: u32,
    pub(super) tenants: Tenants,
    /// The sum of the unused guarantees of all present tenants.
    reserved: u64,
    /// The tenants with waiting callers, the next one first.
    line: BTreeSet<Rank>,
    /// How many callers wait, of all tenants.
    pub(super) waiting: usize,
    /// The number of the last event, which orders them.
    events: u64,
    /// The callers to wake when nothing is locked any more.
    pub(super) woken: Vec<Waker>,
}

impl Scheduler {
    pub(super) fn new(limit: u32, settings: Settings) -> Self {
        Scheduler {
            settings,
            limit,
            in_flight: 0,
            tenants: Tenants::new(),
            reserved: 0,
            line: BTreeSet::new(),
            waiting: 0,
            events: 0,
            woken: Vec::new(),
        }
    }

    /// Removes absent tenants, and hands out the slots that they leave. It precedes every other operation.
    pub(super) fn remove_absent(&mut self, now: Timestamp) {
        if self.tenants.remove_absent(&self.settings, now) {
            self.recompute_guarantees();
        }
    }

    /// Returns the id of a tenant, if it is present.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.tenants.find(name, &self.settings)
    }

    /// Returns the id of a tenant with a new request, which makes it present.
    pub(super) fn arrive(&mut self, name: &str, now: Timestamp) -> usize {
        if let Some(id) = self.find(name) {
            self.tenants[id].seen = now;
            return id;
        }
        let id = self.tenants.add(name, &self.settings, now);
        self.recompute_guarantees();
        id
    }

    /// Takes a slot, if the tenant may have one.
    pub(super) fn enter(&mut self, id: usize) -> bool {
        let admitted = admits(self.tenants[id].is_below_guarantee(), self.free(), self.reserved);
        if admitted {
            self.in_flight += 1;
            let served = self.next_event();
            self.change(id, |tenant| {
                tenant.in_flight += 1;
                tenant.served = served;
            });
        }
        admitted
    }

    /// Returns a slot, which goes to the next caller.
    pub(super) fn leave(&mut self, id: usize, now: Timestamp) {
        self.in_flight -= 1;
        self.change(id, |tenant| {
            tenant.in_flight -= 1;
            tenant.seen = now;
        });
        self.hand_out();
    }

    /// Queues a call of a tenant, and returns its place, unless the queue is full. A full queue of a tenant still takes the first
    /// call of a caller. When only the sum of all queues is full, a tenant without a waiting call may still have one. So
    /// others cannot lock them out.
    pub(super) fn enqueue(&mut self, id: usize, caller: Option<u64>) -> Option<Place> {
        let tenant = &self.tenants[id];
        let of_tenant = tenant.waiting.len();
        let is_full = of_tenant >= self.settings.queue || (self.waiting >= self.settings.total_queue && of_tenant > 0);
        if is_full && caller.is_none_or(|caller| tenant.has_waiting(caller)) {
            return None;
        }
        let number = self.next_event();
        self.waiting += 1;
        Some(self.change(id, |tenant| tenant.push(number, caller)))
    }

    /// Returns whether a call still waits for its slot.
    pub(super) fn is_waiting(&self, id: usize, place: Place) -> bool {
        self.tenants[id].waiting.contains_key(&place)
    }

    /// Sets the waker of a waiting call, and returns the old one: dropping a waker can drop a task, and with it a place in
    /// the queue, so nothing may be locked then.
    pub(super) fn set_waker(&mut self, id: usize, place: Place, waker: Waker) -> Option<Waker> {
        self.tenants[id].waiting.get_mut(&place)?.waker.replace(waker)
    }

    /// Removes a call from the queue. If it has its slot already, that goes to the next one. Returns the waker.
    pub(super) fn leave_queue(&mut self, id: usize, place: Place, now: Timestamp) -> Option<Waker> {
        if !self.is_waiting(id, place) {
            self.leave(id, now);
            return None;
        }
        self.waiting -= 1;
        self.change(id, |tenant| {
            tenant.seen = now;
            tenant.remove(place)
        })
    }

    pub(super) fn set_limit(&mut self, limit: u32) {
        if limit != self.limit {
            self.limit = limit;
            self.recompute_guarantees();
        }
    }

    /// Returns how long until a tenant could be absent and leave its reserve.
    pub(super) fn until_next_absent(&self, now: Timestamp) -> Duration {
        self.tenants.until_next_check(&self.settings, now)
    }

    fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    fn free(&self) -> u32 {
        self.limit.saturating_sub(self.in_flight)
    }

    /// Hands free slots to waiting callers, as long as the next one may have one.
    fn hand_out(&mut self) {
        while let Some(Rank { id, .. }) = self.line.first().copied()
            && self.enter(id)
        {
            self.waiting -= 1;
            let waker = self.change(id, Tenant::pop);
            self.woken.extend(waker);
        }
    }

    /// Recomputes every guarantee, in time linear in the number of tenants. Needed only when a tenant comes or goes, or the
    /// limit changes.
    fn recompute_guarantees(&mut self) {
        self.reserved = 0;
        self.line.clear();
        let weights = self.tenants.weights;
        for (id, tenant) in self.tenants.iter_mut() {
            tenant.guarantee = guarantee(tenant.weight, self.limit, weights);
            self.reserved += u64::from(tenant.unused_guarantee());
            self.line.extend(tenant.rank(id));
        }
        self.hand_out();
    }

    /// Changes a tenant, and keeps the sums over all tenants up to date.
    fn change<T>(&mut self, id: usize, change: impl FnOnce(&mut Tenant) -> T) -> T {
        let tenant = &mut self.tenants[id];
        self.reserved -= u64::from(tenant.unused_guarantee());
        if let Some(rank) = tenant.rank(id) {
            self.line.remove(&rank);
        }
        let result = change(tenant);
        self.reserved += u64::from(tenant.unused_guarantee());
        self.line.extend(tenant.rank(id));
        result
    }
}
