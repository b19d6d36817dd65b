//! The slow reference model: every operation on every key of a trace.

use std::collections::BTreeMap;

use num_rational::BigRational;
use num_traits::Zero;
use tidegate_core::{Algorithm, DecisionParts, Lease, Op, Quota, Reason};

use super::key_state::{KeyState, Rule, rational, to_i128};
use super::trace::{Step, TraceRequest};

/// The slow reference model of a store: all keys of one trace.
#[derive(Debug, Clone, Default)]
pub struct Model {
    keys: BTreeMap<(usize, usize), ModelKey>,
    /// The latest time of a step.
    latest_time: i128,
}

/// A key of the model: its state at the last write, and the quota that wrote it.
#[derive(Debug, Clone)]
struct ModelKey {
    rule: Rule,
    quota: Quota,
    state: KeyState,
    last: i128,
}

impl ModelKey {
    fn new(quota: &Quota, now: i128) -> Self {
        let rule = Rule::new(quota);
        ModelKey { rule, quota: *quota, state: KeyState::with_used(&rule, 0, now).advance(&rule, now, now), last: now }
    }

    /// Returns the used units at `t`. Time does not go back for a key, so an earlier `t` counts as the time of the
    /// write.
    fn used(&self, t: i128) -> BigRational {
        let t = t.max(self.last);
        self.state.advance(&self.rule, self.last, t).used(&self.rule, t)
    }

    /// Returns whether `units` would be admitted at `t`, with a debt of up to `debt`.
    fn admits(&self, units: i128, debt: i128, t: i128) -> bool {
        self.used(t) + rational(units) <= rational(self.rule.capacity + debt)
    }

    fn is_new(&self, t: i128) -> bool {
        self.used(t).is_zero()
    }

    /// Returns this key written at `now`, changed by `change`.
    fn written_at(&self, now: i128, change: impl FnOnce(&mut KeyState, &Rule, i128)) -> Self {
        let at = now.max(self.last);
        let mut state = self.state.advance(&self.rule, self.last, at);
        change(&mut state, &self.rule, at);
        ModelKey { state, last: at, ..self.clone() }
    }

    /// Returns the span from `now` until `holds`.
    fn wait(&self, now: i128, holds: impl Fn(i128) -> bool) -> u64 {
        let at = first_true(now, holds).expect("every wait of a quota ends");
        // A decision reports longer spans as its longest one.
        u64::try_from(at - now).unwrap_or(DecisionParts::MAX_SPAN)
    }

    fn decision(&self, now: i128, retry_after: Option<u64>, reason: Option<Reason>) -> DecisionParts {
        let capacity = self.rule.capacity;
        let left = rational(capacity) - self.used(now);
        let remaining = to_i128(&left.floor()).max(0);
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

    /// Applies `op` at `now`. Returns the decision, and the key afterwards if it is written.
    fn apply(&self, op: Op, now: i128) -> (DecisionParts, Option<ModelKey>) {
        let is_lease_op = matches!(op, Op::Admit(_) | Op::Renew(_) | Op::Release(_));
        let has_leases = self.rule.algorithm == Algorithm::Concurrency;
        if is_lease_op != has_leases && !matches!(op, Op::Check(_) | Op::Reset) {
            return (self.decision(now, None, Some(Reason::CostExceedsCapacity)), None);
        }
        match op {
            Op::Limit(cost) => self.take(cost.get().into(), 0, true, now),
            Op::Check(cost) => self.take(cost.get().into(), 0, false, now),
            Op::Reserve(cost) => self.take(cost.get().into(), self.rule.debt, true, now),
            Op::Refund(cost) => self.refund(cost.get().into(), now),
            Op::Reset => self.refund(i128::MAX >> 1, now),
            Op::Admit(lease) if self.holds(lease, now) || self.admits(1, 0, now) => self.hold_lease(lease, now),
            Op::Admit(_) => self.take(1, 0, false, now),
            Op::Renew(lease) if self.holds(lease, now) => self.hold_lease(lease, now),
            Op::Release(lease) if self.holds(lease, now) => self.release_lease(lease, now),
            Op::Renew(_) | Op::Release(_) => (self.decision(now, None, Some(Reason::Concurrency)), None),
        }
    }

    fn take(&self, units: i128, debt: i128, write: bool, now: i128) -> (DecisionParts, Option<ModelKey>) {
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
        let key = self.written_at(now, |state, rule, at| state.take(rule, units, at));
        // Only a reservation can go into debt. The work may start when the debt has cleared.
        let cleared = (!key.admits(0, 0, now)).then(|| key.wait(now, |t| key.admits(0, 0, t)));
        (key.decision(now, cleared, None), Some(key))
    }

    /// Returns whether the lease has a place at `t`.
    fn holds(&self, lease: Lease, t: i128) -> bool {
        match self.state.advance(&self.rule, self.last, t.max(self.last)) {
            KeyState::Leases(held) => held.contains(lease),
            _ => false,
        }
    }

    fn hold_lease(&self, lease: Lease, now: i128) -> (DecisionParts, Option<ModelKey>) {
        let key = self.written_at(now, |state, rule, at| {
            if let KeyState::Leases(held) = state {
                held.insert(lease, at + rule.period);
            }
        });
        (key.decision(now, None, None), Some(key))
    }

    fn release_lease(&self, lease: Lease, now: i128) -> (DecisionParts, Option<ModelKey>) {
        let key = self.written_at(now, |state, _, _| {
            if let KeyState::Leases(held) = state {
                held.remove(lease);
            }
        });
        (key.decision(now, None, None), Some(key))
    }

    fn refund(&self, units: i128, now: i128) -> (DecisionParts, Option<ModelKey>) {
        let key = self.written_at(now, |state, rule, _| state.refund(rule, units));
        (key.decision(now, None, None), Some(key))
    }
}

impl Model {
    /// Creates a model in which every key is new.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decides one step. Returns one decision for each request.
    pub fn decide(&mut self, step: &Step) -> Vec<DecisionParts> {
        let now = i128::from(step.at);
        self.latest_time = self.latest_time.max(now);
        match &step.requests[..] {
            [request] if !step.is_joint => {
                let (decision, written) = self.key(request, now).apply(request.op, now);
                // A refund to an idle key may make a store forget the key now or later.
                let idle = self.keys.get(&request.limit_and_key()).is_none_or(|stored| stored.is_new(now));
                if let Some(key) = written
                    && !(idle && key.is_new(now))
                {
                    self.write(request, key);
                }
                vec![decision]
            }
            requests => self.decide_all(requests, now),
        }
    }

    /// Decides all or nothing: entries of the same key are judged by their sum, and taken in order.
    fn decide_all(&mut self, requests: &[TraceRequest], now: i128) -> Vec<DecisionParts> {
        let mut sums = BTreeMap::new();
        let mut checks = Vec::new();
        for request in requests {
            let sum: &mut i128 = sums.entry(request.limit_and_key()).or_default();
            *sum += i128::from(request.units());
            checks.push(self.key(request, now).take(*sum, 0, false, now).0);
        }
        if checks.iter().any(|check| !check.allowed) {
            return checks;
        }
        let mut taken = Vec::new();
        for request in requests {
            let (decision, written) = self.key(request, now).apply(request.op, now);
            taken.push(decision);
            self.write(request, written.expect("what fits is taken"));
        }
        taken
    }

    /// Returns the requested key under the requested quota.
    fn key(&self, request: &TraceRequest, now: i128) -> ModelKey {
        match self.keys.get(&request.limit_and_key()) {
            None => ModelKey::new(&request.quota, now),
            Some(key) if key.quota == request.quota => key.clone(),
            // A new state is equivalent to no state, so it is not rebased.
            Some(key) if key.is_new(now) => ModelKey::new(&request.quota, now),
            Some(key) => {
                let rule = Rule::new(&request.quota);
                let state = key.state.rebase(&key.rule, &rule, key.last);
                ModelKey { rule, quota: request.quota, state, last: key.last }
            }
        }
    }

    /// Writes a key, or forgets it if it is as good as new.
    fn write(&mut self, request: &TraceRequest, key: ModelKey) {
        if key.is_new(key.last) {
            self.keys.remove(&request.limit_and_key());
        } else {
            self.keys.insert(request.limit_and_key(), key);
        }
    }

    /// Returns the latest time of a step.
    pub fn latest_time(&self) -> u64 {
        self.latest_time as u64
    }

    /// Returns whether every store must agree about the time `at`. On a clock that goes back, a store that has
    /// forgotten new keys may differ from one that has not.
    pub fn is_certain(&self, at: u64) -> bool {
        let at = i128::from(at);
        at >= self.latest_time || self.keys.values().all(|key| key.is_new(at) || !key.is_new(self.latest_time))
    }
}

/// Returns the first whole number from `from` on at which `holds`. It must stay true from there on. `None` when it
/// holds nowhere in the range of decisions.
fn first_true(from: i128, holds: impl Fn(i128) -> bool) -> Option<i128> {
    if holds(from) {
        return Some(from);
    }
    // Doubles the step until it holds, then halves the last step. A quota leads to at most 2^34 units of 2^45 us.
    let mut step = 1_i128;
    while !holds(from + step) {
        step *= 2;
        if step > 1 << 100 {
            return None;
        }
    }
    let (mut fails, mut holds_at) = (from + step / 2, from + step);
    while holds_at - fails > 1 {
        let middle = fails + (holds_at - fails) / 2;
        if holds(middle) { holds_at = middle } else { fails = middle }
    }
    Some(holds_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_true_finds_every_edge() {
        for edge in 0..200 {
            assert_eq!(first_true(0, |at| at >= edge), Some(edge));
            assert_eq!(first_true(edge, |_| true), Some(edge));
        }
        assert_eq!(first_true(7, |_| false), None);
    }
}
