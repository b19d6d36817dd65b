//! Who has how much, and who is next.

use std::collections::BTreeSet;
use std::task::Waker;
use std::time::Duration;

use tidegate_core::Timestamp;

use super::builder::Terms;
use super::present::Present;
use super::share::{admits, guarantee};
use super::tenant::{Rank, Tenant};

/// The slots and everybody who wants one. It is given the time and reads no clock.
///
/// Between two calls this holds: nobody waits who may have a slot. So whoever asks overtakes nobody, and need not be
/// compared with those who wait.
pub(super) struct State {
    terms: Terms,
    pub(super) limit: u32,
    pub(super) in_flight: u32,
    pub(super) present: Present,
    /// What all who are present lack to their guarantees together.
    reserved: u64,
    /// The tenants of whom somebody waits: who is next comes first.
    line: BTreeSet<Rank>,
    /// How many wait, of all tenants.
    pub(super) waiting: usize,
    /// Numbers what is done, so that it is known what came first.
    next: u64,
    /// Whom to wake as soon as nothing is locked any more.
    pub(super) woken: Vec<Waker>,
}

impl State {
    pub(super) fn new(limit: u32, terms: Terms) -> Self {
        State {
            terms,
            limit,
            in_flight: 0,
            present: Present::new(),
            reserved: 0,
            line: BTreeSet::new(),
            waiting: 0,
            next: 0,
            woken: Vec::new(),
        }
    }

    /// Forgets who is gone, and hands out what that leaves. Comes before everything else that is done.
    pub(super) fn look(&mut self, now: Timestamp) {
        if self.present.forget_gone(&self.terms, now) {
            self.share_anew();
        }
    }

    /// The place of a tenant, if it is present.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.present.find(name, &self.terms)
    }

    /// The place of a tenant who asks, and so is present from now on.
    pub(super) fn arrive(&mut self, name: &str, now: Timestamp) -> usize {
        if let Some(id) = self.find(name) {
            self.present[id].seen = now;
            return id;
        }
        let id = self.present.add(name, &self.terms, now);
        self.share_anew();
        id
    }

    /// Takes a slot, if the tenant may have one.
    pub(super) fn enter(&mut self, id: usize) -> bool {
        let admitted = admits(self.present[id].is_below_guarantee(), self.free(), self.reserved);
        if admitted {
            self.in_flight += 1;
            let served = self.number();
            self.change(id, |tenant| {
                tenant.in_flight += 1;
                tenant.served = served;
            });
        }
        admitted
    }

    /// Gives a slot back, and to whoever is next.
    pub(super) fn leave(&mut self, id: usize, now: Timestamp) {
        self.in_flight -= 1;
        self.change(id, |tenant| {
            tenant.in_flight -= 1;
            tenant.seen = now;
        });
        self.hand_out();
    }

    /// Joins the queue of a tenant, and says under which number; not if it is full. When only the queues of all together
    /// are, a tenant of whom nobody waits may still have one there, so that the others cannot shut it out.
    pub(super) fn join(&mut self, id: usize) -> Option<u64> {
        let of_tenant = self.present[id].waiting.len();
        if of_tenant >= self.terms.queue || (self.waiting >= self.terms.queue_in_all && of_tenant > 0) {
            return None;
        }
        let number = self.number();
        self.waiting += 1;
        self.change(id, |tenant| _ = tenant.waiting.insert(number, None));
        Some(number)
    }

    /// Whether the turn of somebody who waits has not come yet.
    pub(super) fn is_waiting(&self, id: usize, number: u64) -> bool {
        self.present[id].waiting.contains_key(&number)
    }

    /// Has somebody who waits told through `waker` when its turn has come. Gives back the one it had before: to drop a waker
    /// can drop a task, and with it a place in the queue, so nothing may be locked then.
    pub(super) fn tell(&mut self, id: usize, number: u64, waker: Waker) -> Option<Waker> {
        self.present[id].waiting.get_mut(&number)?.replace(waker)
    }

    /// Somebody who waits does not want to any more. If its turn had come, the slot goes on to the next. Gives back the
    /// waker.
    pub(super) fn give_up(&mut self, id: usize, number: u64, now: Timestamp) -> Option<Waker> {
        if !self.is_waiting(id, number) {
            self.leave(id, now);
            return None;
        }
        self.waiting -= 1;
        let mut waker = None;
        self.change(id, |tenant| {
            waker = tenant.waiting.remove(&number);
            tenant.seen = now;
        });
        waker.flatten()
    }

    pub(super) fn set_limit(&mut self, limit: u32) {
        if limit != self.limit {
            self.limit = limit;
            self.share_anew();
        }
    }

    /// How long until somebody could be gone and leave something.
    pub(super) fn next_look(&self, now: Timestamp) -> Duration {
        self.present.next_check(&self.terms, now)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn free(&self) -> u32 {
        self.limit.saturating_sub(self.in_flight)
    }

    /// Gives free slots to those who wait, as long as somebody may have one.
    fn hand_out(&mut self) {
        while let Some(Rank { id, .. }) = self.line.first().copied()
            && self.enter(id)
        {
            self.waiting -= 1;
            let mut first = None;
            self.change(id, |tenant| first = tenant.waiting.pop_first());
            self.woken.extend(first.and_then(|(_, waker)| waker));
        }
    }

    /// Works out every guarantee. As much work as there are tenants; only when one comes or goes, or the limit changes.
    fn share_anew(&mut self) {
        self.reserved = 0;
        self.line.clear();
        let weights = self.present.weights;
        for (id, tenant) in self.present.iter_mut() {
            tenant.guarantee = guarantee(tenant.weight, self.limit, weights);
            self.reserved += u64::from(tenant.lacks());
            self.line.extend(tenant.rank(id));
        }
        self.hand_out();
    }

    /// Changes a tenant and what is kept of all of them.
    fn change(&mut self, id: usize, change: impl FnOnce(&mut Tenant)) {
        let tenant = &mut self.present[id];
        self.reserved -= u64::from(tenant.lacks());
        if let Some(rank) = tenant.rank(id) {
            self.line.remove(&rank);
        }
        change(tenant);
        self.reserved += u64::from(tenant.lacks());
        self.line.extend(tenant.rank(id));
    }
}
