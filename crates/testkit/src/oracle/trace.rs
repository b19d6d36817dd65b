//! Traces: what is asked when.

use std::fmt;

use tidegate_core::{Cost, DecisionParts, Op, Quota};

use super::Model;

/// One thing asked of one key of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Which limit of the trace.
    pub limit: usize,
    /// Which key of the trace.
    pub key: usize,
    /// The quota it is asked under.
    pub quota: Quota,
    /// What is asked.
    pub op: Op,
}

impl Ask {
    /// The limit and the key.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.limit, self.key)
    }

    /// What a `limit` asks for.
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
    /// When, in microseconds since the epoch.
    pub at: u64,
    /// Whether it is an all-or-nothing batch.
    pub all: bool,
    /// What is asked: exactly one thing unless it is a batch.
    pub asks: Vec<Ask>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}{}", self.at, if self.all { " all or nothing" } else { "" })?;
        for ask in &self.asks {
            let parts = ask.quota.parts();
            write!(f, "; limit {} key {}: {:?} under {} ", ask.limit, ask.key, ask.op, parts.algorithm)?;
            write!(f, "rate={} period={:?} capacity={}", parts.rate, parts.period, parts.capacity)?;
            write!(f, " start={:?} buckets={} max_debt={:?}", parts.start, parts.buckets, parts.max_debt)?;
        }
        Ok(())
    }
}

/// A list of calls, made from a seed or by hand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// The calls, in order. Time may go back.
    pub steps: Vec<Step>,
}

impl Trace {
    /// What the model decides, step by step; none when stores may differ about it, see [`Model::is_certain`].
    pub fn expected(&self) -> Option<Vec<Vec<DecisionParts>>> {
        let mut model = Model::new();
        self.steps.iter().map(|step| model.is_certain(step.at).then(|| model.decide(step))).collect()
    }
}
