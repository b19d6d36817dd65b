//! What was decided, counted by limit.

use std::collections::HashMap;
use std::fmt;

use tidegate::{Decision, Reason};

use crate::json::Op;

/// Counts decisions, for the summary at the end.
pub(super) struct Tally {
    index: HashMap<String, usize>,
    limits: Vec<Counts>,
}

struct Counts {
    name: String,
    shadow: bool,
    allowed: u64,
    /// In the order of [`REASONS`]; for a limit in shadow mode, what it would have denied.
    denied: [u64; REASONS.len()],
    /// In the order of [`OTHERS`].
    others: [u64; OTHERS.len()],
}

const REASONS: [Reason; 5] =
    [Reason::Rate, Reason::Deny, Reason::CostExceedsCapacity, Reason::Concurrency, Reason::Store];

/// Operations that are counted, but are neither allowed nor denied in the summary.
const OTHERS: [&str; 6] = ["check", "reserve", "refund", "reset", "renew", "release"];

/// Which of [`OTHERS`] it is, if it is one.
fn other(op: Op) -> Option<usize> {
    match op {
        Op::Limit | Op::Admit(_) => None,
        Op::Check => Some(0),
        Op::Reserve => Some(1),
        Op::Refund => Some(2),
        Op::Reset => Some(3),
        Op::Renew(_) => Some(4),
        Op::Release(_) => Some(5),
    }
}

impl Tally {
    /// Of limits by name, and whether they are in shadow mode.
    pub(super) fn new(limits: impl IntoIterator<Item = (String, bool)>) -> Self {
        let limits: Vec<_> = limits.into_iter().map(|(name, shadow)| Counts::new(name, shadow)).collect();
        let index = limits.iter().enumerate().map(|(index, limit)| (limit.name.clone(), index)).collect();
        Tally { index, limits }
    }

    pub(super) fn count(&mut self, limit: &str, op: Op, decision: &Decision) {
        let Some(counts) = self.index.get(limit).map(|index| &mut self.limits[*index]) else { return };
        if let Some(other) = other(op) {
            counts.others[other] += 1;
            return;
        }
        counts.allowed += u64::from(decision.allowed());
        if let Some(at) = decision.reason().and_then(|reason| REASONS.iter().position(|known| *known == reason)) {
            counts.denied[at] += 1;
        }
    }
}

impl Counts {
    fn new(name: String, shadow: bool) -> Self {
        Counts { name, shadow, allowed: 0, denied: [0; REASONS.len()], others: [0; OTHERS.len()] }
    }

    fn reasons(&self) -> String {
        let counted = REASONS.iter().zip(self.denied).filter(|(_, count)| *count > 0);
        counted.map(|(reason, count)| format!("{reason} {count}")).collect::<Vec<_>>().join(", ")
    }

    fn notes(&self) -> String {
        let reasons = self.reasons();
        let mut notes = match (self.shadow, reasons.is_empty()) {
            (_, true) => Vec::new(),
            (false, false) => vec![reasons],
            (true, false) => vec![format!("shadow: would have denied {}: {reasons}", self.denied.iter().sum::<u64>())],
        };
        let others = OTHERS.iter().zip(self.others).filter(|(_, count)| *count > 0);
        notes.extend(others.map(|(name, count)| format!("{name} x{count}")));
        notes.join("; ")
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.limits.iter().map(|limit| limit.name.chars().count()).max().unwrap_or(0).max("limit".len());
        writeln!(f, "{:<width$}  {:>10}  {:>10}", "limit", "allowed", "denied")?;
        for limit in &self.limits {
            let denied = if limit.shadow { 0 } else { limit.denied.iter().sum() };
            let line = format!("{:<width$}  {:>10}  {denied:>10}  {}", limit.name, limit.allowed, limit.notes());
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
