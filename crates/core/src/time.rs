//! Timestamps and time spans in whole microseconds.

use std::fmt;
use std::time::Duration;

/// A point in time: microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch itself.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// Returns the time that many microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Timestamp(micros)
    }

    /// Returns the time that many milliseconds after the epoch, or the largest timestamp when the result does not fit.
    pub const fn from_millis(millis: u64) -> Self {
        Timestamp(millis.saturating_mul(1_000))
    }

    /// Returns the microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Adds `span`, with a fraction of a microsecond rounded up. Saturates at the largest timestamp.
    #[must_use]
    pub fn saturating_add(self, span: Duration) -> Self {
        let micros = span.as_nanos().div_ceil(1_000);
        Timestamp(self.0.saturating_add(u64::try_from(micros).unwrap_or(u64::MAX)))
    }

    /// Subtracts `span` in whole microseconds. Saturates at the epoch.
    #[must_use]
    pub fn saturating_sub(self, span: Duration) -> Self {
        Timestamp(self.0.saturating_sub(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Returns the span from `earlier` to this time, or zero when `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

/// Returns a span of `n` milliseconds.
pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns a span of `n` seconds.
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Returns a span of `n` minutes.
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(60))
}

/// Returns a span of `n` hours.
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(3_600))
}

/// Returns a span of `n` days of 24 hours.
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(86_400))
}

/// Returns a span in milliseconds, rounded up: a reported time is never too early.
pub const fn ceil_millis(span: Duration) -> u64 {
    span.as_secs().saturating_mul(1_000).saturating_add(span.subsec_nanos().div_ceil(1_000_000) as u64)
}

/// Returns a span in seconds, rounded up.
pub const fn ceil_seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add((span.subsec_nanos() > 0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceil_functions_round_up_and_saturate() {
        for (nanos, ms, s) in [
            (0, 0, 0),
            (1, 1, 1),
            (1_000_000, 1, 1),
            (1_000_001, 2, 1),
            (999_999_999, 1_000, 1),
            (1_000_000_000, 1_000, 1),
            (1_000_000_001, 1_001, 2),
        ] {
            assert_eq!((ceil_millis(Duration::from_nanos(nanos)), ceil_seconds(Duration::from_nanos(nanos))), (ms, s));
        }
        assert_eq!((ceil_millis(Duration::MAX), ceil_seconds(Duration::MAX)), (u64::MAX, u64::MAX));
    }
}
