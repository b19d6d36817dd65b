//! Latency and errors of a store's calls, second by second, for the dashboard.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::history::push_bounded;

/// Buckets in each power of two: a quantile is too high by an eighth at most.
const BUCKETS_PER_OCTAVE: u64 = 8;
/// The longest latency in microseconds that is recorded exactly: half an hour.
const MAX_MICROS: u64 = (1 << 31) - 1;
const BUCKETS: usize = bucket_index(MAX_MICROS) + 1;

/// The calls of one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CallSample {
    pub(crate) calls: u32,
    pub(crate) errors: u32,
    /// In microseconds; `None` without a call.
    pub(crate) p50: Option<u64>,
    pub(crate) p99: Option<u64>,
}

/// Latency and errors of a store's calls, second by second, for five minutes.
#[derive(Debug)]
pub(crate) struct StoreCalls {
    counts: [AtomicU32; BUCKETS],
    /// All errors since the start.
    errors: AtomicU64,
    /// The errors of the seconds that have ended.
    past_errors: AtomicU64,
    samples: Mutex<VecDeque<CallSample>>,
}

impl Default for StoreCalls {
    fn default() -> Self {
        StoreCalls {
            counts: [const { AtomicU32::new(0) }; BUCKETS],
            errors: AtomicU64::new(0),
            past_errors: AtomicU64::new(0),
            samples: Mutex::default(),
        }
    }
}

impl StoreCalls {
    pub(super) fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(MAX_MICROS).min(MAX_MICROS);
        self.counts[bucket_index(micros)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn record_errors(&self, errors: u64) {
        self.errors.fetch_add(errors, Ordering::Relaxed);
    }

    /// Ends a second.
    pub(crate) fn tick(&self) {
        let counts: Vec<u32> = self.counts.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect();
        let calls: u32 = counts.iter().sum();
        let errors = self.errors.load(Ordering::Relaxed);
        let errors = errors - self.past_errors.swap(errors, Ordering::Relaxed);
        let sample = CallSample {
            calls,
            errors: u32::try_from(errors).unwrap_or(u32::MAX),
            p50: quantile(&counts, calls, 50),
            p99: quantile(&counts, calls, 99),
        };
        if let Ok(mut samples) = self.samples.lock() {
            let _ = push_bounded(&mut samples, sample);
        }
    }

    /// Returns how many requests the store could not answer since the start.
    #[cfg(feature = "otlp")]
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Returns the samples, the newest last.
    pub(crate) fn samples(&self) -> Vec<CallSample> {
        self.samples.lock().map(|samples| samples.iter().copied().collect()).unwrap_or_default()
    }
}

/// Returns a percentile of the latencies, rounded up to the end of its bucket.
fn quantile(counts: &[u32], calls: u32, percent: u64) -> Option<u64> {
    let wanted = (u64::from(calls) * percent).div_ceil(100);
    let mut seen = 0;
    let reached = counts.iter().position(|count| {
        seen += u64::from(*count);
        calls > 0 && seen >= wanted
    });
    reached.map(bucket_end)
}

/// Returns the bucket of a latency.
const fn bucket_index(micros: u64) -> usize {
    if micros < BUCKETS_PER_OCTAVE {
        return micros as usize;
    }
    let power = micros.ilog2() as u64;
    let step = (micros >> (power - 3)) & (BUCKETS_PER_OCTAVE - 1);
    ((power - 2) * BUCKETS_PER_OCTAVE + step) as usize
}

/// Returns the longest latency in a bucket.
fn bucket_end(bucket: usize) -> u64 {
    let (power, step) = (bucket as u64 / BUCKETS_PER_OCTAVE + 2, bucket as u64 % BUCKETS_PER_OCTAVE);
    if (bucket as u64) < BUCKETS_PER_OCTAVE {
        bucket as u64
    } else {
        ((BUCKETS_PER_OCTAVE + step + 1) << (power - 3)) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_is_at_most_an_eighth_too_high() {
        let mut last = 0;
        for micros in (0..5000).chain([10_000, 65_535, 65_536, 1_000_000, MAX_MICROS]) {
            let here = bucket_index(micros);
            assert!(here >= last && here < BUCKETS, "{micros}");
            assert!(
                bucket_end(here) >= micros && bucket_end(here) - micros <= micros / 8,
                "{micros}: {}",
                bucket_end(here)
            );
            last = here;
        }
    }

    #[test]
    fn quantiles_cover_one_second() {
        let calls = StoreCalls::default();
        (0..98).for_each(|_| calls.record(Duration::from_micros(100)));
        (0..2).for_each(|_| calls.record(Duration::from_millis(50)));
        calls.record_errors(2);
        calls.tick();
        calls.tick();
        let samples = calls.samples();
        assert_eq!((samples[0].calls, samples[0].errors), (100, 2));
        assert!((100..=112).contains(&samples[0].p50.expect("called")), "{samples:?}");
        assert!((50_000..=56_250).contains(&samples[0].p99.expect("called")), "{samples:?}");
        assert_eq!(samples[1], CallSample::default());
    }
}
