//! Traces: lists of store calls with their times.

use std::fmt;

use tidegate_core::{Cost, DecisionParts, Op, Quota};

use super::Model;

/// One operation on one key of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRequest {
    /// The index of the limit in the trace.
    pub limit: usize,
    /// The index of the key in the trace.
    pub key: usize,
    /// The quota that decides.
    pub quota: Quota,
    /// The operation.
    pub op: Op,
}

impl TraceRequest {
    /// Returns the limit and the key.
    pub(super) fn limit_and_key(&self) -> (usize, usize) {
        (self.limit, self.key)
    }

    /// Returns the units of the operation, 1 for those without a cost.
    pub(super) fn units(&self) -> u64 {
        match self.op {
            Op::Limit(cost) | Op::Check(cost) | Op::Reserve(cost) | Op::Refund(cost) => cost.get(),
            Op::Reset | Op::Admit(_) | Op::Renew(_) | Op::Release(_) => Cost::ONE.get(),
        }
    }
}

/// One call of a store: one operation, or several `limit`s all or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The time, in microseconds since the epoch.
    pub at: u64,
    /// Whether it is an all-or-nothing batch.
    pub is_joint: bool,
    /// The requests: exactly one, except in an all-or-nothing batch.
    pub requests: Vec<TraceRequest>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}{}", self.at, if self.is_joint { " all or nothing" } else { "" })?;
        for request in &self.requests {
            let parts = request.quota.parts();
            write!(f, "; limit {} key {}: {:?} under {} ", request.limit, request.key, request.op, parts.algorithm)?;
            write!(f, "rate={} period={:?} capacity={}", parts.rate, parts.period, parts.capacity)?;
            write!(f, " start={:?} buckets={} max_debt={:?}", parts.start, parts.buckets, parts.max_debt)?;
        }
        Ok(())
    }
}

/// A list of store calls, from a seed or handmade.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// The calls, in order. Time may go back.
    pub steps: Vec<Step>,
}

impl Trace {
    /// Returns the model's decisions, step by step, or `None` when stores may differ (see [`Model::is_certain`]).
    pub fn expected(&self) -> Option<Vec<Vec<DecisionParts>>> {
        let mut model = Model::new();
        self.steps.iter().map(|step| model.is_certain(step.at).then(|| model.decide(step))).collect()
    }
}
