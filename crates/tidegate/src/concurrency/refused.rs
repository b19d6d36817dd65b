//! No permit.

use std::fmt;
use std::time::Duration;

use tidegate_core::{Decision, DecisionParts, Reason};

/// Too many at once: nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    pub(super) why: Why,
    pub(super) limit: u32,
    pub(super) retry_after: Duration,
    pub(super) shared: bool,
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// As many as may be are in flight.
    Busy,
    /// As many as may wait are waiting.
    QueueFull,
    /// The turn did not come in the time there was to wait.
    TooLong,
}

impl Why {
    /// The name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Why::Busy => "busy",
            Why::QueueFull => "queue_full",
            Why::TooLong => "too_long",
        }
    }
}

impl Refused {
    /// Why.
    pub const fn why(&self) -> Why {
        self.why
    }

    /// How many may be in flight.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// When it may be worth another try: about as long as work took of late. Only a hint, because nobody knows when work
    /// will end.
    pub const fn retry_after(&self) -> Duration {
        self.retry_after
    }

    /// Whether the limit is one for everybody, so that whoever was turned away has done nothing to deserve it; not one of
    /// a key's own.
    pub const fn is_shared(&self) -> bool {
        self.shared
    }

    /// The same as the decision of a limit.
    pub fn decision(&self) -> Decision {
        let micros = u64::try_from(self.retry_after.as_micros()).unwrap_or(DecisionParts::LONGEST);
        DecisionParts {
            allowed: false,
            limit: self.limit,
            remaining: 0,
            retry_after: Some(micros),
            next_after: Some(micros),
            reset_after: micros,
            reason: Some(Reason::Concurrency),
        }
        .into()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { limit, retry_after, .. } = self;
        match self.why {
            Why::Busy => write!(f, "{limit} are in flight, and no more may be")?,
            Why::QueueFull => write!(f, "{limit} are in flight, and as many wait as may")?,
            Why::TooLong => write!(f, "{limit} are in flight, and none of them ended in time")?,
        }
        write!(f, "; try again in about {retry_after:?}")
    }
}

impl std::error::Error for Refused {}
