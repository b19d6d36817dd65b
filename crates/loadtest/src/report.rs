//! The results of a load test: a table for people, JSON for programs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::run::Outcome;
use crate::tally::{Counts, Interval};
use crate::{LoadTest, chart};

/// The results of a load test. `Display` is a table.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The time from the first request to the last response.
    seconds: f64,
    #[serde(flatten)]
    pub(crate) all: Figures,
    pub(crate) urls: Vec<TargetFigures>,
    #[serde(skip)]
    notes: Vec<String>,
    #[serde(skip)]
    pub(crate) timeline: Timeline,
}

/// The course of a test over time, for the chart.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// The test in words, for the head of the chart.
    pub(crate) description: String,
    pub(crate) intervals: Vec<Interval>,
    pub(crate) interval_length: Duration,
    /// The time of sending.
    pub(crate) sending: Duration,
}

/// The figures of one server.
#[derive(Debug, Serialize)]
pub(crate) struct TargetFigures {
    pub(crate) url: String,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) requests: u64,
    pub(crate) per_second: f64,
    allowed: u64,
    /// The allowed requests that no rule matches.
    unmatched: u64,
    denied: u64,
    errors: u64,
    errors_by_kind: BTreeMap<String, u64>,
    /// Requests that were due and not sent, because no connection was free.
    unsent: u64,
    /// `None` without a decision.
    pub(crate) latency_us: Option<Latency>,
}

/// Latencies in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: u64,
    p90: u64,
    pub(crate) p99: u64,
    #[serde(rename = "p99.9")]
    p999: u64,
    pub(crate) max: u64,
}

impl Report {
    pub(crate) fn new(test: &LoadTest, outcome: Outcome) -> Self {
        let seconds = outcome.took.as_secs_f64();
        let mut all = Counts::new();
        let mut urls = Vec::new();
        let mut notes = Vec::new();
        let servers = test.targets.iter().zip(&outcome.measurements.servers).zip(&outcome.unsent);
        for ((target, counts), unsent) in servers {
            all.add(counts);
            urls.push(TargetFigures {
                url: target.to_string(),
                figures: Figures::from_counts(counts, *unsent, seconds),
            });
            for (error, times) in &counts.errors {
                notes.push(format!("{times} x {} from {target}; the first: {}", error.kind, error.message));
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
        if outcome.sending < test.duration {
            notes.push(format!(
                "ended early, after {:.1} of {:.1} s",
                outcome.sending.as_secs_f64(),
                test.duration.as_secs_f64()
            ));
        }
        let timeline = Timeline {
            description: test.describe(),
            intervals: outcome.measurements.intervals,
            interval_length: outcome.interval_length,
            sending: outcome.sending,
        };
        Report { seconds, all: Figures::from_counts(&all, unsent, seconds), urls, notes, timeline }
    }

    /// Returns notes on the interpretation of these figures. The table shows them below itself; the JSON omits them.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Draws throughput and latency over time as SVG.
    pub fn to_svg(&self) -> String {
        chart::draw(self)
    }

    /// Returns the figures as one JSON object on one line.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).expect("numbers and strings are always JSON");
        text.push('\n');
        text
    }
}

impl Figures {
    fn from_counts(counts: &Counts, unsent: u64, seconds: f64) -> Self {
        let latencies = &counts.latencies;
        let at = |quantile| latencies.value_at_quantile(quantile).min(latencies.max());
        Figures {
            requests: counts.requests(),
            per_second: (counts.requests() as f64 / seconds.max(1e-6) * 10.0).round() / 10.0,
            allowed: counts.allowed,
            unmatched: counts.unmatched,
            denied: counts.denied,
            errors: counts.failed,
            errors_by_kind: counts.errors.iter().map(|(error, times)| (error.kind.clone(), *times)).collect(),
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

    /// Returns the cells of a row, from the second on.
    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.requests.to_string(), format!("{:.0}", self.per_second)];
        cells.extend([self.allowed, self.denied, self.errors].map(|number| number.to_string()));
        cells.extend(match &self.latency_us {
            Some(Latency { p50, p90, p99, p999, max }) => {
                [p50, p90, p99, p999, max].map(|micros| format_millis(*micros))
            }
            None => [const { "-" }; 5].map(str::to_owned),
        });
        cells
    }
}

/// Formats a latency in milliseconds, to the microsecond.
pub(crate) fn format_millis(micros: u64) -> String {
    format!("{}.{:03}", micros / 1_000, micros % 1_000)
}

const COLUMNS: [&str; 10] =
    ["requests", "per second", "allowed", "denied", "errors", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms"];

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![(String::new(), COLUMNS.map(str::to_owned).to_vec())];
        rows.extend(self.urls.iter().map(|of| (of.url.clone(), of.figures.cells())));
        if self.urls.len() > 1 {
            rows.push(("in all".to_owned(), self.all.cells()));
        }
        let first = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let width = |column: usize| rows.iter().map(|(_, cells)| cells[column].len()).max().unwrap_or(0);
        for (name, cells) in &rows {
            write!(f, "{name:<first$}")?;
            for (column, cell) in cells.iter().enumerate() {
                write!(f, "  {cell:>width$}", width = width(column))?;
            }
            writeln!(f)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}
