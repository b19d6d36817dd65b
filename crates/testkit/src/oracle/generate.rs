//! Random traces from a seed.

use tidegate_core::{Algorithm, Cost, DecisionParts, Lease, MAX_COUNT, MAX_PERIOD, Op, Quota, QuotaError};

use super::trace::{Step, TraceRequest};
use super::{Model, Trace, random_quota};
use crate::Random;

/// The latest time of a trace. A store whose numbers are doubles cannot tell later microseconds than 2^53 apart, and a
/// lease expires later than it is admitted.
const MAX_TIME: u64 = (1 << 53) - MAX_PERIOD.as_micros() as u64;

/// The leases of a trace: few, so that they recur, and with halves in common.
const LEASES: [u64; 8] = [0, 1, 1 << 32, 1 << 32 | 1, 7 << 32 | 1, 7 << 32 | 9, u64::MAX, 0x0123_4567_89ab_cdef];

impl Trace {
    /// Creates the trace of `steps` calls for `seed`, the same in every run.
    pub fn from_seed(seed: u64, steps: usize) -> Self {
        Trace { steps: generate(seed, steps).0 }
    }
}

/// Returns the steps of a seed's trace, and the model's decisions about them.
pub(super) fn generate(seed: u64, steps: usize) -> (Vec<Step>, Vec<Vec<DecisionParts>>) {
    let mut random = Random::new(seed);
    let base = if random.one_in(8) { random.below(1 << 30) } else { 1_700_000_000_000_000 + random.below(1 << 40) };
    let limits = (0..random.between(1, 2)).map(|_| random_tiers(&mut random)).collect();
    let mut generator = Generator { random, limits, model: Model::new(), now: base, spans: vec![base] };
    (0..steps).map(|_| generator.step()).unzip()
}

/// Returns the quotas of one limit: mostly one, sometimes several.
fn random_tiers(random: &mut Random) -> Vec<Quota> {
    let first = random_quota(random);
    let mut tiers = vec![first];
    while random.one_in(3) && tiers.len() < 3 {
        let tier = match random.below(3) {
            // The first quota with another debt: usage is kept unchanged.
            0 => first.max_debt(random.below(20)).unwrap_or(first),
            // The first quota's shape at another rate.
            1 => with_another_rate(random, &first).unwrap_or(first),
            _ => random_quota(random),
        };
        // A store may keep the leases of a key apart from its units.
        let tier = if has_leases(&tier) == has_leases(&first) { tier } else { first };
        tiers.push(tier);
    }
    tiers
}

/// Returns a quota with another rate and the algorithm, start and buckets of this one. The period stays too, except for
/// leases.
fn with_another_rate(random: &mut Random, quota: &Quota) -> Result<Quota, QuotaError> {
    let parts = quota.parts();
    let rate = random.between(1, (u64::from(parts.rate) * 2).min(MAX_COUNT));
    let period = match parts.algorithm {
        Algorithm::Concurrency => random.pick(&[parts.period, parts.period / 3, parts.period * 2]),
        _ => parts.period,
    };
    let other = Quota::new(parts.algorithm, rate, period)?;
    match parts.algorithm {
        Algorithm::FixedWindow => other.start(parts.start),
        Algorithm::SlidingWindow => other.start(parts.start)?.buckets(parts.buckets.into()),
        _ => Ok(other),
    }
}

fn has_leases(quota: &Quota) -> bool {
    quota.algorithm() == Algorithm::Concurrency
}

struct Generator {
    random: Random,
    limits: Vec<Vec<Quota>>,
    /// Decides during generation, so that times can aim at the spans of decisions.
    model: Model,
    now: u64,
    /// The times at which spans of the last decisions end.
    spans: Vec<u64>,
}

impl Generator {
    fn step(&mut self) -> (Step, Vec<DecisionParts>) {
        let at = self.random_time();
        let step = match self.random.below(6) {
            0 if self.limits.iter().any(|tiers| !has_leases(&tiers[0])) => {
                Step { at, is_joint: true, requests: self.random_batch() }
            }
            _ => Step { at, is_joint: false, requests: vec![self.random_request()] },
        };
        self.now = at;
        let decisions = self.model.decide(&step);
        self.spans = vec![at];
        for decision in &decisions {
            let spans = [decision.retry_after, decision.next_after, Some(decision.reset_after)];
            self.spans.extend(spans.into_iter().flatten().filter_map(|span| at.checked_add(span)));
        }
        (step, decisions)
    }

    /// Returns a random time. Half of the times are at the edge of a decision's span.
    fn random_time(&mut self) -> u64 {
        let (now, random) = (self.now, &mut self.random);
        let at = match random.below(16) {
            0..=4 => now,
            5..=6 => now + random.between(1, 3),
            7..=11 => random.pick(&self.spans).saturating_add(random.below(3)).saturating_sub(1),
            12 => now + random.below(1_000_000),
            13 => now + random.below(60_000_000),
            14 => now + random.of_bits(20, 48),
            _ => now.saturating_sub(random.of_bits(1, 30)),
        };
        let at = if at >= MAX_TIME { now } else { at };
        if self.model.is_certain(at) { at } else { self.model.latest_time() }
    }

    fn random_target(&mut self) -> (usize, usize, Quota) {
        let limit = self.random.below(self.limits.len() as u64) as usize;
        // Mostly one key, so that it has a history.
        let key = if self.random.one_in(4) { self.random.between(1, 2) as usize } else { 0 };
        (limit, key, self.random.pick(&self.limits[limit]))
    }

    fn random_request(&mut self) -> TraceRequest {
        let (limit, key, quota) = self.random_target();
        let cost = self.random_cost(&quota);
        // Sometimes an operation that the quota does not have.
        let is_lease_op = has_leases(&quota) != self.random.one_in(32);
        let op = if is_lease_op { self.random_lease_op(cost) } else { self.random_unit_op(cost) };
        TraceRequest { limit, key, quota, op }
    }

    fn random_unit_op(&mut self, cost: Cost) -> Op {
        match self.random.below(16) {
            0..=7 => Op::Limit(cost),
            8..=10 => Op::Check(cost),
            11..=12 => Op::Reserve(cost),
            13..=14 => Op::Refund(cost),
            _ => Op::Reset,
        }
    }

    fn random_lease_op(&mut self, cost: Cost) -> Op {
        let lease = Lease::from_bits(self.random.pick(&LEASES));
        match self.random.below(16) {
            0..=7 => Op::Admit(lease),
            8..=10 => Op::Renew(lease),
            11..=13 => Op::Release(lease),
            14 => Op::Check(cost),
            _ => Op::Reset,
        }
    }

    fn random_batch(&mut self) -> Vec<TraceRequest> {
        let mut requests: Vec<TraceRequest> = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            let (limit, key, mut quota) = self.random_target();
            if has_leases(&quota) {
                continue;
            }
            // A batch with one key under two quotas has no meaning.
            if let Some(known) = requests.iter().find(|request| request.limit_and_key() == (limit, key)) {
                quota = known.quota;
            }
            let op = Op::Limit(self.random_cost(&quota));
            requests.push(TraceRequest { limit, key, quota, op });
        }
        requests
    }

    fn random_cost(&mut self, quota: &Quota) -> Cost {
        let capacity = u64::from(quota.parts().capacity);
        let units = match self.random.below(16) {
            0..=6 => 1,
            7..=10 => self.random.between(1, capacity),
            11..=12 => capacity.div_ceil(3),
            13 => capacity,
            14 => capacity.saturating_sub(1),
            _ => capacity + self.random.between(1, 3),
        };
        Cost::new(units.max(1)).expect("at least 1")
    }
}
