//! Counts and latencies of a running test: by server, and by time for the chart.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

use crate::client::{RequestError, Verdict};

/// The number of intervals of the chart.
pub(crate) const INTERVALS: u32 = 50;
/// The longest latency that is recorded exactly, in microseconds. An hour is longer than any run.
const MAX_LATENCY: u64 = 3_600_000_000;
/// The maximum number of error kinds that are counted separately, so that memory is constant for every server.
const MAX_ERROR_KINDS: usize = 20;

/// The counts of all connections, in constant memory for any length of the test.
pub(crate) struct Tally {
    started: Instant,
    interval_length: Duration,
    measurements: Mutex<Measurements>,
}

/// All measurements of a test.
pub(crate) struct Measurements {
    pub(crate) servers: Vec<Counts>,
    /// The closed intervals of the chart.
    pub(crate) intervals: Vec<Interval>,
    /// The current interval, in which responses are counted.
    open: Counts,
    /// The end of sending.
    ended: Instant,
    /// The arrival of the last response.
    pub(crate) last_response: Instant,
}

/// The counts of one server, or of one interval.
#[derive(Clone)]
pub(crate) struct Counts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// The allowed requests that no rule matches.
    pub(crate) unmatched: u64,
    pub(crate) failed: u64,
    /// Errors by kind, each with its first message.
    pub(crate) errors: Vec<(RequestError, u64)>,
    /// Latencies of decisions, in microseconds.
    pub(crate) latencies: Histogram<u64>,
}

/// The counts of one interval of the chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) failed: u64,
    /// The median, the 99th percentile and the maximum in microseconds. `None` without a decision.
    pub(crate) latency: Option<[u64; 3]>,
}

impl Tally {
    pub(crate) fn new(servers: usize, started: Instant, duration: Duration) -> Self {
        let measurements = Measurements {
            servers: vec![Counts::new(); servers],
            intervals: Vec::with_capacity(INTERVALS as usize),
            open: Counts::new(),
            ended: started + duration,
            last_response: started,
        };
        Tally { started, interval_length: duration / INTERVALS, measurements: Mutex::new(measurements) }
    }

    /// Counts responses of a server. Each has the time from which its latency counts, and its arrival time.
    pub(crate) fn count(&self, server: usize, responses: impl Iterator<Item = (Verdict, Instant, Instant)>) {
        let mut measurements = self.measurements();
        for (verdict, since, now) in responses {
            self.close_intervals(&mut measurements, now);
            let micros = now.saturating_duration_since(since).as_micros() as u64;
            let Measurements { servers, open, ended, .. } = &mut *measurements;
            servers[server].count(&verdict, micros);
            match verdict {
                // A response after the end of sending does not count as throughput.
                Verdict::Failed(_) if now > *ended => {}
                _ if now > *ended => open.latencies.saturating_record(micros),
                verdict => open.count(&verdict, micros),
            }
        }
    }

    /// Returns whether a server has ever made a decision.
    pub(crate) fn has_decided(&self, server: usize) -> bool {
        let measurements = self.measurements();
        measurements.servers[server].allowed + measurements.servers[server].denied > 0
    }

    /// Returns the number of requests so far, and of failed ones among them.
    pub(crate) fn requests_and_errors(&self) -> (u64, u64) {
        let measurements = self.measurements();
        let requests = measurements.servers.iter().map(Counts::requests).sum();
        (requests, measurements.servers.iter().map(|server| server.failed).sum())
    }

    /// Ends sending. Responses still arrive.
    pub(crate) fn end(&self, ended: Instant) {
        self.measurements().ended = ended;
    }

    /// Closes the last interval. Returns the measurements and the length of an interval.
    pub(crate) fn finish(self) -> (Measurements, Duration) {
        let interval_count = self.interval_count(self.measurements().ended);
        let mut measurements = self.measurements.into_inner().unwrap_or_else(PoisonError::into_inner);
        while measurements.intervals.len() < interval_count {
            measurements.close();
        }
        (measurements, self.interval_length)
    }

    /// Closes the intervals that are over. Responses after the end of sending belong to the last one.
    fn close_intervals(&self, measurements: &mut Measurements, now: Instant) {
        measurements.last_response = measurements.last_response.max(now);
        let interval_count = self.interval_count(now.min(measurements.ended));
        while measurements.intervals.len() + 1 < interval_count {
            measurements.close();
        }
    }

    /// Returns the number of intervals by `now`, including the current one.
    fn interval_count(&self, now: Instant) -> usize {
        let whole = now.saturating_duration_since(self.started);
        whole.as_nanos().div_ceil(self.interval_length.as_nanos()).clamp(1, u128::from(INTERVALS)) as usize
    }

    fn measurements(&self) -> MutexGuard<'_, Measurements> {
        self.measurements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Measurements {
    fn close(&mut self) {
        let Counts { allowed, denied, failed, ref latencies, .. } = self.open;
        let latency = (!latencies.is_empty())
            .then(|| [latencies.value_at_quantile(0.5), latencies.value_at_quantile(0.99), latencies.max()]);
        self.intervals.push(Interval { allowed, denied, failed, latency });
        self.open.clear();
    }
}

impl Counts {
    pub(crate) fn new() -> Self {
        // Three significant digits: a figure is within 0.1 % of the measurement.
        let latencies = Histogram::new_with_bounds(1, MAX_LATENCY, 3).expect("these bounds are right");
        Counts { allowed: 0, denied: 0, unmatched: 0, failed: 0, errors: Vec::new(), latencies }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.allowed + self.denied + self.failed
    }

    fn count(&mut self, verdict: &Verdict, micros: u64) {
        match verdict {
            Verdict::Allowed => self.allowed += 1,
            Verdict::Denied => self.denied += 1,
            Verdict::Unmatched => {
                self.allowed += 1;
                self.unmatched += 1;
            }
            Verdict::Failed(error) => return self.record_failures(error, 1),
        }
        self.latencies.saturating_record(micros);
    }

    /// Counts requests that failed for one reason.
    pub(crate) fn record_failures(&mut self, error: &RequestError, times: u64) {
        self.failed += times;
        let known = self.errors.iter().position(|(known, _)| known.kind == error.kind);
        match known {
            None if self.errors.len() < MAX_ERROR_KINDS => self.errors.push((error.clone(), times)),
            // The last kind stands for the rest.
            known => self.errors[known.unwrap_or(MAX_ERROR_KINDS - 1)].1 += times,
        }
    }

    /// Adds the counts of another server.
    pub(crate) fn add(&mut self, other: &Counts) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.unmatched += other.unmatched;
        other.errors.iter().for_each(|(error, times)| self.record_failures(error, *times));
        self.latencies.add(&other.latencies).expect("the bounds are the same");
    }

    fn clear(&mut self) {
        (self.allowed, self.denied, self.unmatched, self.failed) = (0, 0, 0, 0);
        self.errors.clear();
        self.latencies.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: String) -> Verdict {
        Verdict::Failed(Box::new(RequestError { kind, message: "no".to_owned(), is_transient: true }))
    }

    fn after(started: Instant, millis: u64) -> Instant {
        started + Duration::from_millis(millis)
    }

    #[test]
    fn a_response_counts_in_the_interval_it_arrives_in() {
        let started = Instant::now();
        let tally = Tally::new(2, started, Duration::from_secs(5));
        let answer = |answer, since, now| (answer, after(started, since), after(started, now));
        tally.count(0, [answer(Verdict::Allowed, 0, 10), answer(Verdict::Denied, 10, 99)].into_iter());
        tally.count(1, [answer(Verdict::Allowed, 100, 350), answer(failed("x".into()), 0, 360)].into_iter());
        // After the end.
        tally.count(1, [answer(Verdict::Allowed, 4_000, 7_000)].into_iter());
        let (measurements, interval_length) = tally.finish();
        assert_eq!((measurements.intervals.len(), interval_length), (50, Duration::from_millis(100)));
        let latency = |index: usize| measurements.intervals[index].latency.map(|micros| micros.map(|one| one / 1_000));
        assert_eq!((latency(0), latency(1), latency(2)), (Some([10, 89, 89]), None, None));
        assert_eq!((latency(3), latency(49)), (Some([250, 250, 250]), Some([3_000, 3_000, 3_000])));
        let of = |index: usize| {
            (
                measurements.intervals[index].allowed,
                measurements.intervals[index].denied,
                measurements.intervals[index].failed,
            )
        };
        assert_eq!((of(0), of(1), of(3), of(49)), ((1, 1, 0), (0, 0, 0), (1, 0, 1), (0, 0, 0)));
        assert_eq!(measurements.servers.iter().map(Counts::requests).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(measurements.last_response, after(started, 7_000));
    }

    #[test]
    fn a_test_that_ends_early_has_fewer_intervals() {
        for (millis, intervals) in [(0, 1), (50, 1), (100, 1), (101, 2), (1_234, 13), (5_000, 50)] {
            let started = Instant::now();
            let tally = Tally::new(1, started, Duration::from_secs(5));
            tally.end(after(started, millis));
            // A late response adds no interval and no throughput.
            let late = [(Verdict::Allowed, started, after(started, millis + 150))];
            tally.count(0, late.into_iter());
            let (measurements, _) = tally.finish();
            assert_eq!(measurements.intervals.len(), intervals, "{millis}");
            assert_eq!(measurements.intervals[intervals - 1].allowed, 0);
            assert!(measurements.intervals[intervals - 1].latency.is_some());
            assert_eq!(measurements.servers[0].allowed, 1);
        }
    }

    #[test]
    fn error_kinds_are_bounded() {
        let mut counts = Counts::new();
        for kind in 0..1_000 {
            counts.count(&failed(kind.to_string()), 1);
        }
        assert_eq!((counts.errors.len(), counts.failed, counts.latencies.len()), (MAX_ERROR_KINDS, 1_000, 0));
        assert_eq!(counts.errors.iter().map(|(_, count)| count).sum::<u64>(), 1_000);
        let mut both = counts.clone();
        both.add(&counts);
        assert_eq!((both.errors.len(), both.failed), (MAX_ERROR_KINDS, 2_000));
    }
}
