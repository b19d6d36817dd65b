//! The algorithms of quotas.

use std::fmt;

/// The algorithm by which a quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// A burst up to the capacity, then the rate: starts full and refills continuously.
    TokenBucket,
    /// `rate` units at the start of every window.
    FixedWindow,
    /// A weighted estimate of the units in the trailing period.
    SlidingWindow,
    /// The exact units in the trailing period.
    SlidingLog,
    /// Leases in flight. A lease expires when it is not renewed.
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

    /// The algorithms that count units: all except [`Algorithm::Concurrency`].
    pub const RATES: [Algorithm; 4] =
        [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog];

    /// Returns the name in configs.
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
