//! Published rules with their numbers, to compare with. Only the simulation uses them.

use std::time::Duration;

use tidegate::Timestamp;
use tidegate::concurrency::{Controller, Sample};

/// Gradient2 as Netflix describes it, from samples or from the means of windows. Wasted work counts as usual.
#[derive(Debug, Clone, Default)]
pub(super) struct NetflixGradient2 {
    limit: Option<f64>,
    long: f64,
    updates: u32,
    /// The minimum length of a window. A window has at least ten samples, or one if there are no windows.
    window: Duration,
    opened: Timestamp,
    took: Duration,
    samples: u32,
    in_flight: u32,
}

impl NetflixGradient2 {
    /// Creates one that is updated once a second.
    pub(super) fn windowed() -> Self {
        NetflixGradient2 { window: Duration::from_secs(1), ..NetflixGradient2::default() }
    }
}

impl Controller for NetflixGradient2 {
    fn limit(&self) -> u32 {
        self.limit.unwrap_or(20.0) as u32
    }

    fn observe(&mut self, sample: &Sample) {
        self.samples += 1;
        self.took += sample.latency();
        self.in_flight = self.in_flight.max(sample.in_flight);
        let enough = if self.window.is_zero() { 1 } else { 10 };
        if self.samples < enough || sample.ended.since(self.opened) < self.window {
            return;
        }
        let short = self.took.as_micros().max(1) as f64 / f64::from(self.samples);
        let in_flight = f64::from(self.in_flight);
        (self.opened, self.took, self.samples, self.in_flight) = (sample.ended, Duration::ZERO, 0, 0);

        self.updates += 1;
        let weight = if self.updates <= 10 { 1.0 / f64::from(self.updates) } else { 2.0 / 601.0 };
        self.long += (short - self.long) * weight;
        if self.long > 2.0 * short {
            self.long *= 0.95;
        }
        let limit = self.limit.unwrap_or(20.0);
        if in_flight >= limit / 2.0 {
            let gradient = (1.5 * self.long / short).clamp(0.5, 1.0);
            self.limit = Some((limit * 0.8 + (limit * gradient + 4.0) * 0.2).clamp(20.0, 200.0));
        }
    }
}

/// The gradient of Envoy's adaptive concurrency filter. It compares the median latency of a tenth of a second with a
/// baseline plus a quarter. The baseline is the median of 50 requests, at most 3 at a time, measured every minute.
#[derive(Debug, Clone)]
pub(super) struct EnvoyGradient {
    limit: f64,
    /// `None` during its measurement.
    alone: Option<f64>,
    times: Vec<u64>,
    /// The start of the window, and the time of the next measurement.
    opened: Timestamp,
    measured: Timestamp,
    at_least: u32,
}

impl Default for EnvoyGradient {
    fn default() -> Self {
        EnvoyGradient {
            limit: 3.0,
            alone: None,
            times: Vec::new(),
            opened: Timestamp::default(),
            measured: Timestamp::default(),
            at_least: 0,
        }
    }
}

impl Controller for EnvoyGradient {
    fn limit(&self) -> u32 {
        if self.alone.is_none() { 3 } else { self.limit as u32 }
    }

    fn observe(&mut self, sample: &Sample) {
        if sample.dropped || sample.started < self.opened {
            return;
        }
        self.times.push(sample.latency().as_micros() as u64);
        let now = sample.ended;
        let Some(alone) = self.alone else {
            if self.times.len() == 50 {
                self.alone = Some(self.median());
                (self.opened, self.measured, self.at_least) = (now, now, 0);
            }
            return;
        };
        if now.since(self.opened).as_millis() < 100 {
            return;
        }
        let gradient = (alone * 1.25 / self.median()).clamp(0.5, 2.0);
        self.limit = (self.limit * gradient + self.limit.sqrt()).clamp(3.0, 1_000.0);
        self.opened = now;
        self.at_least = if self.limit <= 3.0 { self.at_least + 1 } else { 0 };
        if now.since(self.measured).as_secs() >= 60 || self.at_least >= 5 {
            self.alone = None;
        }
    }
}

impl EnvoyGradient {
    /// Returns the median of the window's times, and starts a new window.
    fn median(&mut self) -> f64 {
        self.times.sort_unstable();
        let median = self.times[self.times.len() / 2].max(1) as f64;
        self.times.clear();
        median
    }
}
