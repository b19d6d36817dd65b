//! The algorithms of quotas.

use std::fmt;

/// How a quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Starts full, refills continuously, allows a burst up to the capacity.
    TokenBucket,
    /// Grants `rate` at the start of every window.
    FixedWindow,
    /// A weighted estimate over the trailing period.
    SlidingWindow,
    /// Exact over the trailing period.
    SlidingLog,
    /// Leases in flight, each of which expires when it is not renewed.
    Concurrency,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::TokenBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
        Algorithm::Concurrency,
    ];

    /// The algorithms that count units: all but [`Algorithm::Concurrency`].
    pub const RATES: [Algorithm; 4] =
        [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog];

    /// The name in configs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Algorithm::TokenBucket => "token_bucket",
            Algorithm::FixedWindow => "fixed_window",
            Algorithm::SlidingWindow => "sliding_window",
            Algorithm::SlidingLog => "sliding_log",
            Algorithm::Concurrency => "concurrency",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
