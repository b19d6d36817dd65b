//! The figures, for people and for programs.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::load::Outcome;
use super::plan::Plan;
use super::tally::Counts;

/// The figures.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// From the first request to the last answer.
    seconds: f64,
    #[serde(flatten)]
    pub(super) all: Figures,
    pub(super) urls: Vec<OfUrl>,
    /// What people should know of these figures.
    #[serde(skip)]
    pub(super) notes: Vec<String>,
}

/// The figures of one server.
#[derive(Debug, Serialize)]
pub(super) struct OfUrl {
    pub(super) url: String,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) requests: u64,
    pub(super) per_second: f64,
    allowed: u64,
    /// Of the allowed: no rule is about them.
    unmatched: u64,
    denied: u64,
    errors: u64,
    errors_by_kind: BTreeMap<String, u64>,
    /// Due, and not sent: no connection was free.
    unsent: u64,
    /// None when nothing was decided.
    pub(super) latency_us: Option<Latency>,
}

/// In microseconds.
#[derive(Debug, Serialize)]
pub(super) struct Latency {
    pub(super) p50: u64,
    p90: u64,
    pub(super) p99: u64,
    #[serde(rename = "p99.9")]
    p999: u64,
    pub(super) max: u64,
}

impl Report {
    pub(super) fn of(plan: &Plan, outcome: &Outcome) -> Self {
        let seconds = outcome.took.as_secs_f64();
        let mut all = Counts::new();
        let mut urls = Vec::new();
        let mut notes = Vec::new();
        let servers = plan.servers.iter().zip(&outcome.counted.servers).zip(&outcome.unsent);
        for ((server, counts), unsent) in servers {
            let target = &server.target;
            all.add(counts);
            urls.push(OfUrl { url: target.to_string(), figures: Figures::of(counts, *unsent, seconds) });
            for (refusal, times) in &counts.errors {
                notes.push(format!("{times} x {} from {target}; the first: {}", refusal.kind, refusal.message));
            }
            if counts.unmatched > 0 {
                notes.push(format!(
                    "warning: {target} has no rule for {} of {} requests, and let them through: --domain and \
                     --descriptor choose another",
                    counts.unmatched,
                    counts.requests()
                ));
            }
        }
        let unsent = outcome.unsent.iter().sum();
        if unsent > 0 {
            notes.push(format!(
                "warning: {unsent} requests were due and not sent, since no connection was free: the servers, or this \
                 machine, cannot keep up with that rate, or there are too few connections"
            ));
        }
        if outcome.sending < plan.duration {
            notes.push(format!(
                "ended early, after {:.1} of {:.1} s",
                outcome.sending.as_secs_f64(),
                plan.duration.as_secs_f64()
            ));
        }
        Report { seconds, all: Figures::of(&all, unsent, seconds), urls, notes }
    }

    /// One object, on one line.
    pub(super) fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).expect("numbers and texts are always JSON");
        text.push('\n');
        text
    }
}

impl Figures {
    fn of(counts: &Counts, unsent: u64, seconds: f64) -> Self {
        let latencies = &counts.latencies;
        let at = |quantile| latencies.value_at_quantile(quantile).min(latencies.max());
        Figures {
            requests: counts.requests(),
            per_second: (counts.requests() as f64 / seconds.max(1e-6) * 10.0).round() / 10.0,
            allowed: counts.allowed,
            unmatched: counts.unmatched,
            denied: counts.denied,
            errors: counts.failed,
            errors_by_kind: counts.errors.iter().map(|(refusal, times)| (refusal.kind.clone(), *times)).collect(),
            unsent,
            latency_us: (!latencies.is_empty()).then(|| Latency {
                p50: at(0.5),
                p90: at(0.9),
                p99: at(0.99),
                p999: at(0.999),
                max: latencies.max(),
            }),
        }
    }

    /// The cells of a line, from the second on.
    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.requests.to_string(), format!("{:.0}", self.per_second)];
        cells.extend([self.allowed, self.denied, self.errors].map(|number| number.to_string()));
        cells.extend(match &self.latency_us {
            Some(Latency { p50, p90, p99, p999, max }) => [p50, p90, p99, p999, max].map(|micros| millis(*micros)),
            None => [const { "-" }; 5].map(str::to_owned),
        });
        cells
    }
}

/// Milliseconds, to the microsecond.
pub(super) fn millis(micros: u64) -> String {
    format!("{}.{:03}", micros / 1_000, micros % 1_000)
}

const HEAD: [&str; 10] =
    ["requests", "per second", "allowed", "denied", "errors", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms"];

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![(String::new(), HEAD.map(str::to_owned).to_vec())];
        lines.extend(self.urls.iter().map(|of| (of.url.clone(), of.figures.cells())));
        if self.urls.len() > 1 {
            lines.push(("in all".to_owned(), self.all.cells()));
        }
        let first = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let width = |column: usize| lines.iter().map(|(_, cells)| cells[column].len()).max().unwrap_or(0);
        for (name, cells) in &lines {
            write!(f, "{name:<first$}")?;
            for (column, cell) in cells.iter().enumerate() {
                write!(f, "  {cell:>width$}", width = width(column))?;
            }
            writeln!(f)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}
