//! The model: what every operation means, for all keys of a trace.

use std::collections::BTreeMap;

use num_rational::BigRational;
use num_traits::Zero;
use tidegate_core::{Algorithm, DecisionParts, Lease, Op, Quota, Reason};

use super::memory::{Memory, Rule, integer, whole};
use super::search::first;
use super::trace::{Ask, Step};

/// The slow reference model of a store: all keys of one trace.
#[derive(Debug, Clone, Default)]
pub struct Model {
    keys: BTreeMap<(usize, usize), Key>,
    /// The latest time anything was asked at.
    latest: i128,
}

/// One key: what it remembered when it was last written, and under which quota.
#[derive(Debug, Clone)]
struct Key {
    rule: Rule,
    quota: Quota,
    memory: Memory,
    last: i128,
}

impl Key {
    fn new(quota: &Quota, now: i128) -> Self {
        let rule = Rule::new(quota);
        Key { rule, quota: *quota, memory: Memory::with_used(&rule, 0, now).at(&rule, now, now), last: now }
    }

    /// What is used at `t`. For a key time does not go back, so an earlier `t` counts as the time it was written.
    fn used(&self, t: i128) -> BigRational {
        let t = t.max(self.last);
        self.memory.at(&self.rule, self.last, t).used(&self.rule, t)
    }

    /// Whether `units` would be admitted at `t`, going `debt` beyond the capacity.
    fn admits(&self, units: i128, debt: i128, t: i128) -> bool {
        self.used(t) + whole(units) <= whole(self.rule.capacity + debt)
    }

    fn is_new(&self, t: i128) -> bool {
        self.used(t).is_zero()
    }

    /// This key written at `now`, changed by `change`.
    fn changed(&self, now: i128, change: impl FnOnce(&mut Memory, &Rule, i128)) -> Self {
        let at = now.max(self.last);
        let mut memory = self.memory.at(&self.rule, self.last, at);
        change(&mut memory, &self.rule, at);
        Key { memory, last: at, ..self.clone() }
    }

    /// The span from `now` until `holds`.
    fn wait(&self, now: i128, holds: impl Fn(i128) -> bool) -> u64 {
        let at = first(now, holds).expect("every wait of a quota ends");
        // A decision says the longest span it can for those that are longer.
        u64::try_from(at - now).unwrap_or(DecisionParts::LONGEST)
    }

    fn decision(&self, now: i128, retry_after: Option<u64>, reason: Option<Reason>) -> DecisionParts {
        let capacity = self.rule.capacity;
        let left = whole(capacity) - self.used(now);
        let remaining = integer(&left.floor()).max(0);
        DecisionParts {
            allowed: reason.is_none(),
            limit: capacity as u32,
            remaining: remaining as u32,
            retry_after,
            next_after: (remaining < capacity).then(|| self.wait(now, |t| self.admits(remaining + 1, 0, t))),
            reset_after: self.wait(now, |t| self.is_new(t)),
            reason,
        }
    }

    /// What comes of `op` at `now`, and the key afterwards when it is written.
    fn apply(&self, op: Op, now: i128) -> (DecisionParts, Option<Key>) {
        let is_about_leases = matches!(op, Op::Admit(_) | Op::Renew(_) | Op::Release(_));
        let has_leases = self.rule.algorithm == Algorithm::Concurrency;
        if is_about_leases != has_leases && !matches!(op, Op::Check(_) | Op::Reset) {
            return (self.decision(now, None, Some(Reason::CostExceedsCapacity)), None);
        }
        match op {
            Op::Limit(cost) => self.take(cost.get().into(), 0, true, now),
            Op::Check(cost) => self.take(cost.get().into(), 0, false, now),
            Op::Reserve(cost) => self.take(cost.get().into(), self.rule.debt, true, now),
            Op::Refund(cost) => self.give_back(cost.get().into(), now),
            Op::Reset => self.give_back(i128::MAX >> 1, now),
            Op::Admit(lease) if self.holds(lease, now) || self.admits(1, 0, now) => self.hold(lease, now),
            Op::Admit(_) => self.take(1, 0, false, now),
            Op::Renew(lease) if self.holds(lease, now) => self.hold(lease, now),
            Op::Release(lease) if self.holds(lease, now) => self.let_go(lease, now),
            Op::Renew(_) | Op::Release(_) => (self.decision(now, None, Some(Reason::Concurrency)), None),
        }
    }

    fn take(&self, units: i128, debt: i128, write: bool, now: i128) -> (DecisionParts, Option<Key>) {
        if units > self.rule.capacity {
            return (self.decision(now, None, Some(Reason::CostExceedsCapacity)), None);
        }
        if !self.admits(units, debt, now) {
            let retry = self.wait(now, |t| self.admits(units, debt, t));
            let is_full = self.rule.algorithm == Algorithm::Concurrency;
            let reason = if is_full { Reason::Concurrency } else { Reason::Rate };
            return (self.decision(now, Some(retry), Some(reason)), None);
        }
        if !write {
            return (self.decision(now, None, None), None);
        }
        let key = self.changed(now, |memory, rule, at| memory.take(rule, units, at));
        // Only a reservation can go into debt, and the work may start when that has cleared.
        let cleared = (!key.admits(0, 0, now)).then(|| key.wait(now, |t| key.admits(0, 0, t)));
        (key.decision(now, cleared, None), Some(key))
    }

    /// Whether a place is held under that lease at `t`.
    fn holds(&self, lease: Lease, t: i128) -> bool {
        match self.memory.at(&self.rule, self.last, t.max(self.last)) {
            Memory::Leases(held) => held.holds(lease),
            _ => false,
        }
    }

    fn hold(&self, lease: Lease, now: i128) -> (DecisionParts, Option<Key>) {
        let key = self.changed(now, |memory, rule, at| {
            if let Memory::Leases(held) = memory {
                held.hold(lease, at + rule.period);
            }
        });
        (key.decision(now, None, None), Some(key))
    }

    fn let_go(&self, lease: Lease, now: i128) -> (DecisionParts, Option<Key>) {
        let key = self.changed(now, |memory, _, _| {
            if let Memory::Leases(held) = memory {
                held.release(lease);
            }
        });
        (key.decision(now, None, None), Some(key))
    }

    fn give_back(&self, units: i128, now: i128) -> (DecisionParts, Option<Key>) {
        let key = self.changed(now, |memory, rule, _| memory.give_back(rule, units));
        (key.decision(now, None, None), Some(key))
    }
}

impl Model {
    /// A model in which every key is new.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decides one step: one decision for each thing it asks.
    pub fn decide(&mut self, step: &Step) -> Vec<DecisionParts> {
        let now = i128::from(step.at);
        self.latest = self.latest.max(now);
        match &step.asks[..] {
            [ask] if !step.all => {
                let (decision, written) = self.key(ask, now).apply(ask.op, now);
                // Whether giving back to an idle key makes a store forget it now or later is the store's affair.
                let idle = self.keys.get(&ask.place()).is_none_or(|stored| stored.is_new(now));
                if let Some(key) = written
                    && !(idle && key.is_new(now))
                {
                    self.write(ask, key);
                }
                vec![decision]
            }
            asks => self.decide_all(asks, now),
        }
    }

    /// All or nothing: entries of the same key are judged by their sum, and taken in order.
    fn decide_all(&mut self, asks: &[Ask], now: i128) -> Vec<DecisionParts> {
        let mut sums = BTreeMap::new();
        let mut looks = Vec::new();
        for ask in asks {
            let sum: &mut i128 = sums.entry(ask.place()).or_default();
            *sum += i128::from(ask.units());
            looks.push(self.key(ask, now).take(*sum, 0, false, now).0);
        }
        if looks.iter().any(|look| !look.allowed) {
            return looks;
        }
        let mut taken = Vec::new();
        for ask in asks {
            let (decision, written) = self.key(ask, now).apply(ask.op, now);
            taken.push(decision);
            self.write(ask, written.expect("what fits is taken"));
        }
        taken
    }

    /// The key that is asked about, under the quota it is asked under.
    fn key(&self, ask: &Ask, now: i128) -> Key {
        match self.keys.get(&ask.place()) {
            None => Key::new(&ask.quota, now),
            Some(key) if key.quota == ask.quota => key.clone(),
            // No state and a state that is as good as new are the same, so it is not rebased either.
            Some(key) if key.is_new(now) => Key::new(&ask.quota, now),
            Some(key) => {
                let rule = Rule::new(&ask.quota);
                let memory = key.memory.rebased(&key.rule, &rule, key.last);
                Key { rule, quota: ask.quota, memory, last: key.last }
            }
        }
    }

    /// A key that is as good as new when it is written is not written but forgotten.
    fn write(&mut self, ask: &Ask, key: Key) {
        if key.is_new(key.last) {
            self.keys.remove(&ask.place());
        } else {
            self.keys.insert(ask.place(), key);
        }
    }

    /// The latest time anything was asked at.
    pub fn latest(&self) -> u64 {
        self.latest as u64
    }

    /// Whether every store has to agree about the time `at`. On a clock that goes back, a store that has forgotten
    /// what was as good as new may differ from one that has not.
    pub fn is_certain(&self, at: u64) -> bool {
        let at = i128::from(at);
        at >= self.latest || self.keys.values().all(|key| key.is_new(at) || !key.is_new(self.latest))
    }
}
