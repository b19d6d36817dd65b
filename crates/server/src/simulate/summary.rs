//! The summary of a replay, decisions by limit, and its progress bar.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};
use tidegate::api::Op;
use tidegate::{Decision, Reason};

/// Decisions by limit. `Display` is the summary.
pub(super) struct Summary {
    index: HashMap<String, usize>,
    limits: Vec<LimitSummary>,
}

/// The counts of one limit.
struct LimitSummary {
    name: String,
    shadow: bool,
    allowed: u64,
    /// In the order of [`REASONS`]. In shadow mode, these are the denials that the limit would have made.
    denied: [u64; REASONS.len()],
    /// In the order of [`OTHER_OPS`].
    others: [u64; OTHER_OPS.len()],
}

const REASONS: [Reason; 5] =
    [Reason::Rate, Reason::Deny, Reason::CostExceedsCapacity, Reason::Concurrency, Reason::Store];

/// Operations that are counted and neither allowed nor denied.
const OTHER_OPS: [&str; 6] = ["check", "reserve", "refund", "reset", "renew", "release"];

/// Returns the index in [`OTHER_OPS`].
fn other_op_index(op: Op) -> Option<usize> {
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

impl Summary {
    /// Takes the names of limits, and whether they are in shadow mode.
    pub(super) fn new(limits: impl IntoIterator<Item = (String, bool)>) -> Self {
        let limits: Vec<_> = limits.into_iter().map(|(name, shadow)| LimitSummary::new(name, shadow)).collect();
        let index = limits.iter().enumerate().map(|(index, limit)| (limit.name.clone(), index)).collect();
        Summary { index, limits }
    }

    pub(super) fn count(&mut self, limit: &str, op: Op, decision: &Decision) {
        let Some(counts) = self.index.get(limit).map(|index| &mut self.limits[*index]) else { return };
        if let Some(other) = other_op_index(op) {
            counts.others[other] += 1;
            return;
        }
        counts.allowed += u64::from(decision.allowed());
        if let Some(at) = decision.reason().and_then(|reason| REASONS.iter().position(|known| *known == reason)) {
            counts.denied[at] += 1;
        }
    }
}

impl LimitSummary {
    fn new(name: String, shadow: bool) -> Self {
        LimitSummary { name, shadow, allowed: 0, denied: [0; REASONS.len()], others: [0; OTHER_OPS.len()] }
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
        let others = OTHER_OPS.iter().zip(self.others).filter(|(_, count)| *count > 0);
        notes.extend(others.map(|(name, count)| format!("{name} x{count}")));
        notes.join("; ")
    }
}

impl fmt::Display for Summary {
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

/// The bar is updated once in so many lines, so that it costs nothing.
const UPDATE_LINES: u64 = 1 << 13;

/// A progress bar on standard error if that is a terminal, else nothing.
pub(super) struct ProgressDisplay {
    bar: Option<ProgressBar>,
    has_size: bool,
}

impl ProgressDisplay {
    /// The bar shows the share of `size` bytes, or only counts lines if the size is unknown.
    pub(super) fn new(size: Option<u64>, quiet: bool) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return ProgressDisplay::none();
        }
        let (bar, template) = match size {
            Some(size) => (
                ProgressBar::new(size),
                "{bar:40} {bytes}/{total_bytes} {msg} lines, {binary_bytes_per_sec}, {eta} left",
            ),
            None => (ProgressBar::new_spinner(), "{spinner} {human_pos} lines"),
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressDisplay { bar: Some(bar.with_style(style)), has_size: size.is_some() }
    }

    pub(super) fn none() -> Self {
        ProgressDisplay { bar: None, has_size: false }
    }

    #[inline]
    pub(super) fn update(&self, lines: u64, bytes: u64) {
        if let Some(bar) = &self.bar
            && lines.is_multiple_of(UPDATE_LINES)
        {
            if self.has_size {
                bar.set_message(lines.to_string());
            }
            bar.set_position(if self.has_size { bytes } else { lines });
        }
    }

    /// Removes the bar, so that the next output stands alone.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
