//! `Rejected`: the error of a caller that gets no permit.

use std::fmt;
use std::time::Duration;

use tidegate_core::{Decision, DecisionParts, Reason};

/// The error of a caller that gets no permit, because too many are in flight. Nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected {
    pub(super) reason: RejectReason,
    pub(super) limit: u32,
    pub(super) retry_after: Duration,
    pub(super) shared: bool,
}

/// The reason why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RejectReason {
    /// The limit is in flight.
    Busy,
    /// The queue is full.
    QueueFull,
    /// The wait ended before the caller's turn.
    TooLong,
}

impl RejectReason {
    /// Returns the name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            RejectReason::Busy => "busy",
            RejectReason::QueueFull => "queue_full",
            RejectReason::TooLong => "too_long",
        }
    }
}

impl Rejected {
    /// Returns the reason.
    pub const fn reason(&self) -> RejectReason {
        self.reason
    }

    /// Returns how many may be in flight.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the time after which a retry may succeed, about the duration of recent work. It is a hint, because the
    /// end of work is unknown.
    pub const fn retry_after(&self) -> Duration {
        self.retry_after
    }

    /// Returns whether other callers use up the limit, so that this caller did nothing to cause the rejection. False for
    /// the limit of a single key.
    pub const fn is_shared(&self) -> bool {
        self.shared
    }

    /// Returns the rejection as a decision.
    pub fn decision(&self) -> Decision {
        let micros = u64::try_from(self.retry_after.as_micros()).unwrap_or(DecisionParts::MAX_SPAN);
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

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rejected { limit, retry_after, .. } = self;
        match self.reason {
            RejectReason::Busy => write!(f, "{limit} are in flight, which is the limit")?,
            RejectReason::QueueFull => write!(f, "{limit} are in flight, and the queue is full")?,
            RejectReason::TooLong => write!(f, "{limit} are in flight, and none of them ended in time")?,
        }
        write!(f, "; try again in about {retry_after:?}")
    }
}

impl std::error::Error for Rejected {}
