//! A slow reference model of the sharing rule, without derived state.

use std::cmp::Ordering;

/// A tenant: a number, or all tenants without a place of their own.
pub(crate) type Name = Option<usize>;

#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) limit: u64,
    /// The weights of the first names; the others have the default.
    pub(crate) weights: Vec<u64>,
    pub(crate) default_weight: u64,
    pub(crate) max_tenants: usize,
    pub(crate) queue: usize,
    pub(crate) total_queue: usize,
    pub(crate) idle_after: u64,
    pub(crate) now: u64,
    /// The number of times that a caller got a slot or began to wait.
    pub(crate) events: usize,
    pub(crate) tenants: Vec<Tenant>,
}

#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) name: Name,
    pub(crate) weight: u64,
    pub(crate) in_flight: u64,
    /// The callers and the ends of their waits, in order of arrival.
    pub(crate) waiting: Vec<(usize, u64)>,
    /// The event at which each of them began to wait, and the event at which the tenant last got a slot.
    since: Vec<usize>,
    served: usize,
    seen: u64,
}

/// The answer to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Permit,
    Queued,
    QueueFull,
}

impl Tenant {
    fn keep(&mut self, keep: impl Fn((usize, u64)) -> bool) {
        let both = std::mem::take(&mut self.waiting).into_iter().zip(std::mem::take(&mut self.since));
        (self.waiting, self.since) = both.filter(|(waiting, _)| keep(*waiting)).unzip();
    }
}

impl Model {
    pub(crate) fn guarantee(&self, tenant: &Tenant) -> u64 {
        let weights: u64 = self.tenants.iter().map(|tenant| tenant.weight).sum();
        tenant.weight * self.limit / weights
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.tenants.iter().map(|tenant| tenant.in_flight).sum()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.tenants.iter().map(|tenant| tenant.waiting.len()).sum()
    }

    /// Returns the reserve of all tenants except the one at `index`.
    fn reserved_for_others(&self, index: usize) -> u64 {
        let others = self.tenants.iter().enumerate().filter(|(other, _)| *other != index);
        others.map(|(_, tenant)| self.guarantee(tenant).saturating_sub(tenant.in_flight)).sum()
    }

    pub(crate) fn is_below(&self, tenant: &Tenant) -> bool {
        tenant.in_flight < self.guarantee(tenant)
    }

    fn admits(&self, index: usize) -> bool {
        let free = self.limit.saturating_sub(self.in_flight());
        free > 0 && (self.is_below(&self.tenants[index]) || free > self.reserved_for_others(index))
    }

    /// Returns the name of a tenant if it called now.
    pub(crate) fn name_of(&self, number: usize) -> Name {
        let is_known = |number: usize| number < self.weights.len();
        let is_here = self.tenants.iter().any(|tenant| tenant.name == Some(number));
        let strangers = self.tenants.iter().filter(|tenant| tenant.name.is_some_and(|name| !is_known(name))).count();
        (is_known(number) || is_here || strangers < self.max_tenants).then_some(number)
    }

    pub(crate) fn find(&self, name: Name) -> Option<&Tenant> {
        self.tenants.iter().find(|tenant| tenant.name == name)
    }

    fn index(&self, name: Name) -> usize {
        self.tenants.iter().position(|tenant| tenant.name == name).expect("present")
    }

    /// Advances the time, and removes absent tenants. Returns the callers that then get a slot, and those that waited
    /// too long.
    pub(crate) fn advance(&mut self, now: u64) -> (Vec<usize>, Vec<usize>) {
        self.now = now;
        let given = self.serve_waiting();
        (given, self.take_expired())
    }

    fn serve_waiting(&mut self) -> Vec<usize> {
        let (now, idle_after) = (self.now, self.idle_after);
        let is_here =
            |tenant: &Tenant| tenant.in_flight > 0 || !tenant.waiting.is_empty() || tenant.seen + idle_after > now;
        self.tenants.retain(is_here);
        self.hand_out()
    }

    fn take_expired(&mut self) -> Vec<usize> {
        let now = self.now;
        let mut late = Vec::new();
        for tenant in &mut self.tenants {
            let before = late.len();
            late.extend(tenant.waiting.iter().filter(|(_, until)| *until <= now).map(|(caller, _)| *caller));
            tenant.keep(|(_, until)| until > now);
            if late.len() > before {
                tenant.seen = now;
            }
        }
        late
    }

    /// Adds a caller. Returns its tenant, and the callers that get a slot by that.
    pub(crate) fn arrive(&mut self, number: usize) -> (Name, Vec<usize>) {
        let name = self.name_of(number);
        if self.find(name).is_none() {
            let known = name.and_then(|name| self.weights.get(name).copied());
            let weight = known.unwrap_or(self.default_weight);
            self.tenants.push(Tenant {
                name,
                weight,
                in_flight: 0,
                waiting: Vec::new(),
                since: Vec::new(),
                served: 0,
                seen: self.now,
            });
        }
        let index = self.index(name);
        self.tenants[index].seen = self.now;
        (name, self.hand_out())
    }

    pub(crate) fn enter(&mut self, name: Name) -> bool {
        let index = self.index(name);
        let admitted = self.admits(index);
        if admitted {
            self.serve(index);
        }
        admitted
    }

    fn serve(&mut self, index: usize) {
        self.events += 1;
        self.tenants[index].in_flight += 1;
        self.tenants[index].served = self.events;
    }

    pub(crate) fn enter_or_queue(&mut self, name: Name, caller: usize, until: u64) -> Answer {
        if self.enter(name) {
            return Answer::Permit;
        }
        let (index, in_all) = (self.index(name), self.waiting());
        let waiting = &mut self.tenants[index].waiting;
        if waiting.len() >= self.queue || (in_all >= self.total_queue && !waiting.is_empty()) {
            return Answer::QueueFull;
        }
        waiting.push((caller, until));
        self.events += 1;
        self.tenants[index].since.push(self.events);
        Answer::Queued
    }

    /// Releases a slot. Returns the callers that get one by that.
    pub(crate) fn release(&mut self, name: Name) -> Vec<usize> {
        let index = self.index(name);
        self.tenants[index].in_flight -= 1;
        self.tenants[index].seen = self.now;
        self.hand_out()
    }

    /// Removes a waiting caller.
    pub(crate) fn cancel(&mut self, caller: usize) {
        let now = self.now;
        for tenant in &mut self.tenants {
            if tenant.waiting.iter().any(|(waiting, _)| *waiting == caller) {
                tenant.keep(|(waiting, _)| waiting != caller);
                tenant.seen = now;
            }
        }
    }

    pub(crate) fn set_limit(&mut self, limit: u64) -> Vec<usize> {
        self.limit = limit;
        self.hand_out()
    }

    fn hand_out(&mut self) -> Vec<usize> {
        let mut given = Vec::new();
        while let Some(index) = self.next() {
            self.serve(index);
            self.tenants[index].since.remove(0);
            given.push(self.tenants[index].waiting.remove(0).0);
        }
        given
    }

    /// Returns the next caller to get a slot. Of the permitted callers, those below their guarantees come first.
    fn next(&self) -> Option<usize> {
        let may = (0..self.tenants.len()).filter(|i| !self.tenants[*i].waiting.is_empty() && self.admits(*i));
        may.min_by(|one, other| {
            let (one, other) = (&self.tenants[*one], &self.tenants[*other]);
            let below = self.is_below(other).cmp(&self.is_below(one));
            let load = (one.in_flight * other.weight).cmp(&(other.in_flight * one.weight));
            let longest = one.since[0].max(one.served).cmp(&other.since[0].max(other.served));
            [below, load, longest].into_iter().fold(Ordering::Equal, Ordering::then)
        })
    }
}
