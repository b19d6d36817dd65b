//! A store with one flaw.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use tidegate_core::{
    Capabilities, Cost, Decision, JointDecision, JointEntry, Lease, Leases, Op, Quota, Request, State, Store,
    StoreError, StoreErrorKind, TestableStore, Timestamp, step, step_all,
};

/// The flaw of a [`BrokenStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    WritesOnCheck,
    WritesOnDenial,
    IgnoresCost,
    FloorsRefill,
    RetriesEarly,
    RetriesLate,
    MovesTimeBack,
    EvictsBusyKeys,
    NeverEvicts,
    ChecksThenAdds,
    IgnoresPrefix,
    IgnoresCase,
    ResetsOnQuotaChange,
    IgnoresQuotaChange,
    RebasesIdleKeys,
    AppliesBatchesOneByOne,
    IgnoresRepeatedKeys,
    AllowsChecksInBatches,
    AllowsTwoQuotasPerKey,
    RefundsBeyondCapacity,
    RefusesDebt,
    LosesLargeNumbers,
    RenewsExpiredLeases,
    ReplacesLeaseIds,
    ReleasesAllLeases,
    TruncatesLeaseIds,
    ClaimsToBeImmediate,
    WaitsForBatches,
}

/// A map store with one flaw.
pub(crate) struct BrokenStore {
    keys: Mutex<HashMap<String, (Quota, State)>>,
    /// Locked from the read to the write, except for a flaw in that.
    turn: Mutex<()>,
    admitted: AtomicU64,
    flaw: Flaw,
}

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

impl BrokenStore {
    pub(crate) fn new(flaw: Flaw) -> Self {
        BrokenStore { keys: Mutex::default(), turn: Mutex::default(), admitted: AtomicU64::new(1 << 40), flaw }
    }

    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        (self.flaw != Flaw::ChecksThenAdds).then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets other calls run in between, if the lock does not prevent it.
    fn yield_to_others(&self) {
        if self.flaw == Flaw::ChecksThenAdds {
            (0..5).for_each(|_| thread::yield_now());
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<String, (Quota, State)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, request: &Request<'_>) -> String {
        let scope = if self.flaw == Flaw::IgnoresPrefix { request.scope.limit() } else { request.scope.as_str() };
        let name = format!("{}:{scope}{}", scope.len(), request.key.to_text());
        if self.flaw == Flaw::IgnoresCase { name.to_lowercase() } else { name }
    }

    fn op(&self, op: Op) -> Op {
        match (self.flaw, op) {
            (Flaw::IgnoresCost, Op::Limit(_)) => Op::Limit(Cost::ONE),
            (Flaw::RefusesDebt, Op::Reserve(cost)) => Op::Limit(cost),
            // The value that a store in floating point would keep.
            (Flaw::LosesLargeNumbers, Op::Limit(cost)) if cost.get() > 1 << 24 => {
                Op::Limit(Cost::new(cost.get() as f32 as u64).unwrap())
            }
            (Flaw::RenewsExpiredLeases, Op::Renew(lease)) => Op::Admit(lease),
            // Each admission gets a new lease id.
            (Flaw::ReplacesLeaseIds, Op::Admit(_)) => {
                Op::Admit(Lease::from_bits(self.admitted.fetch_add(1, Ordering::Relaxed)))
            }
            (Flaw::ReleasesAllLeases, Op::Release(_)) => Op::Reset,
            (Flaw::TruncatesLeaseIds, Op::Admit(lease)) => Op::Admit(half(lease)),
            (Flaw::TruncatesLeaseIds, Op::Renew(lease)) => Op::Renew(half(lease)),
            (Flaw::TruncatesLeaseIds, Op::Release(lease)) => Op::Release(half(lease)),
            (_, op) => op,
        }
    }

    fn read(&self, request: &Request<'_>, now: Timestamp) -> State {
        match self.keys().get(&self.name(request)).cloned() {
            None => State::New,
            Some((from, state)) if from == *request.quota => state,
            Some(_) if self.flaw == Flaw::ResetsOnQuotaChange => State::New,
            Some((_, state)) if self.flaw == Flaw::IgnoresQuotaChange => state,
            Some((from, state)) => {
                // As if the clock had not been read: an idle key is rebased as if it were busy.
                let idle = self.flaw == Flaw::RebasesIdleKeys && state.is_new(&from, now);
                let at = if idle { Timestamp::EPOCH } else { now };
                state.rebase(&from, request.quota, at)
            }
        }
    }

    fn write(&self, request: &Request<'_>, state: State) {
        match state {
            State::New => self.keys().remove(&self.name(request)),
            state => self.keys().insert(self.name(request), (*request.quota, state)),
        };
    }

    fn decide(&self, request: &Request<'_>, now: Timestamp) -> Decision {
        let _turn = self.turn();
        let op = self.op(request.op);
        let before = self.read(request, now);
        let mut state = before.clone();
        let outcome = step(request.quota, &mut state, op, now);
        self.yield_to_others();
        match (self.flaw, op) {
            (Flaw::WritesOnCheck, Op::Check(cost)) => {
                step(request.quota, &mut state, Op::Limit(cost), now);
                self.write(request, state);
            }
            (Flaw::WritesOnDenial | Flaw::FloorsRefill, Op::Limit(_)) if !outcome.decision.allowed() => {
                self.write(request, moved(before.clone(), request.quota, now, self.flaw == Flaw::FloorsRefill));
            }
            (Flaw::MovesTimeBack, _) if outcome.changed => self.write(request, at(state, now)),
            _ if outcome.changed => self.write(request, state),
            _ => {}
        }
        let mut parts = outcome.decision.into_parts();
        match (self.flaw, op) {
            (Flaw::RetriesEarly, Op::Limit(_)) => parts.retry_after = parts.retry_after.map(|wait| wait - 1),
            (Flaw::RetriesLate, Op::Limit(_)) => parts.retry_after = parts.retry_after.map(|wait| wait + 1),
            (Flaw::RefundsBeyondCapacity, Op::Refund(cost)) if before == State::New => {
                parts.remaining = parts.remaining.saturating_add(cost.get() as u32);
            }
            _ => {}
        }
        parts.into()
    }

    fn decide_all(&self, requests: &[Request<'_>], now: Timestamp) -> Result<JointDecision, StoreError> {
        if self.flaw == Flaw::AppliesBatchesOneByOne {
            return Ok(JointDecision::new(requests.iter().map(|request| self.decide(request, now)).collect()));
        }
        let _turn = self.turn();
        let (mut names, mut states, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        for request in requests {
            let cost = match request.op {
                Op::Limit(cost) if request.quota.supports(request.op) => cost,
                Op::Check(cost) if self.flaw == Flaw::AllowsChecksInBatches => cost,
                _ => return Err(StoreError::new(StoreErrorKind::Unsupported, "only `limit`")),
            };
            let name = self.name(request);
            let known = names.iter().position(|known| *known == name);
            let is_under_another =
                |(entry, _): &(JointEntry<'_>, _)| Some(entry.state) == known && entry.quota != request.quota;
            if entries.iter().any(is_under_another) && self.flaw != Flaw::AllowsTwoQuotasPerKey {
                return Err(StoreError::new(StoreErrorKind::Unsupported, "one key under two quotas"));
            }
            let index = match known {
                Some(index) if self.flaw != Flaw::IgnoresRepeatedKeys => index,
                _ => {
                    names.push(name);
                    states.push(self.read(request, now));
                    names.len() - 1
                }
            };
            entries.push((JointEntry { quota: request.quota, cost, state: index }, request));
        }
        let only: Vec<JointEntry<'_>> = entries.iter().map(|(entry, _)| *entry).collect();
        let all = step_all(&only, &mut states, now);
        self.yield_to_others();
        if all.allowed() {
            for (entry, request) in entries {
                self.write(request, states[entry.state].clone());
            }
        }
        Ok(all)
    }
}

/// Returns a refilled state at the time `now`, as a flawed store writes it with every call. `floor` drops the fraction.
fn moved(state: State, quota: &Quota, now: Timestamp, floor: bool) -> State {
    match state {
        State::TokenBucket { deficit, last } if now > last => {
            let parts = quota.parts();
            let (rate, period) = (u128::from(parts.rate), parts.period.as_micros());
            let (rate, unit) = (rate / gcd(rate, period), period / gcd(rate, period));
            let came = u128::from(now.as_micros() - last.as_micros()) * rate;
            let came = if floor { came / unit * unit } else { came };
            State::TokenBucket { deficit: deficit.saturating_sub(came), last: now }
        }
        state => state,
    }
}

/// Returns the lower 32 bits of a lease.
fn half(lease: Lease) -> Lease {
    Lease::from_bits(lease.to_bits() & 0xffff_ffff)
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns a state with its time set to `now`, even when that is earlier.
fn at(state: State, now: Timestamp) -> State {
    match state {
        State::TokenBucket { deficit, .. } => State::TokenBucket { deficit, last: now },
        State::FixedWindow { deficit, .. } => State::FixedWindow { deficit, last: now },
        State::SlidingWindow { counts, .. } => State::SlidingWindow { counts, last: now },
        State::Leases(leases) => State::Leases(Leases::from_entries(leases.entries(), now)),
        state => state,
    }
}

impl Store for BrokenStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_atomic_all(self.flaw != Flaw::AppliesBatchesOneByOne)
    }

    fn is_immediate(&self) -> bool {
        matches!(self.flaw, Flaw::ClaimsToBeImmediate | Flaw::WaitsForBatches)
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        (self.flaw == Flaw::WaitsForBatches).then(|| Ok(self.decide(request, NOW)))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        Ok(self.decide(request, NOW))
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        if self.flaw == Flaw::WaitsForBatches {
            std::future::pending::<()>().await;
        }
        self.decide_all(requests, NOW)
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        requests.iter().map(|request| Ok(self.decide(request, NOW))).collect()
    }

    async fn close(&self) {}
}

impl TestableStore for BrokenStore {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        Ok(self.decide(request, at))
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.decide_all(requests, at)
    }

    async fn sweep_at(&self, at: Timestamp) -> Option<usize> {
        match self.flaw {
            Flaw::EvictsBusyKeys => self.keys().clear(),
            Flaw::NeverEvicts => {}
            _ => self.keys().retain(|_, (quota, state)| !state.is_new(quota, at)),
        }
        Some(self.keys().len())
    }
}
