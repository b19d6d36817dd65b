//! Why a call was not let through.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_core::{Reason, ceil_seconds};

use crate::enforce::{Outcome, Ruling};
#[cfg(feature = "http")]
use crate::http::RateLimit;

/// Why a call was not let through: an outcome that is not an admission. A word in size, because it travels in results.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub(super) inner: Box<Inner>,
}

#[derive(Debug, Clone)]
pub(super) struct Inner {
    pub(super) outcome: Outcome,
    /// How the layer above answers, if there is one.
    #[cfg(feature = "http")]
    pub(super) rate_limit: Option<RateLimit>,
    /// Whether something else has counted the request as well.
    #[cfg(feature = "http")]
    pub(super) besides: bool,
}

impl Refusal {
    pub(super) fn new(outcome: Outcome) -> Self {
        let inner = Inner {
            outcome,
            #[cfg(feature = "http")]
            rate_limit: None,
            #[cfg(feature = "http")]
            besides: false,
        };
        Refusal { inner: Box::new(inner) }
    }

    /// As it is answered under the layer that has these settings; `besides` what that or another attribute counts, or in its place.
    #[cfg(feature = "tower")]
    pub(super) fn answered_by(mut self, rate_limit: RateLimit, besides: bool) -> Self {
        self.inner.rate_limit = Some(rate_limit);
        self.inner.besides = besides;
        self
    }

    /// What was decided.
    pub fn outcome(&self) -> &Outcome {
        &self.inner.outcome
    }

    /// How long to wait before a retry. None when nobody knows, and when waiting cannot help.
    pub fn retry_after(&self) -> Option<Duration> {
        self.outcome().retry_after()
    }

    fn ruling(&self) -> Option<&Ruling> {
        self.outcome().rulings().first()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = self.outcome().error() {
            return write!(f, "the limit could not be asked: {error}");
        }
        let Some(ruling) = self.ruling() else { return f.write_str("refused") };
        let limit = ruling.policy();
        match (ruling.decision().reason(), self.retry_after()) {
            (Some(Reason::Deny), _) => write!(f, "on the deny list of the limit {limit:?}"),
            (Some(Reason::CostExceedsCapacity), _) => {
                write!(f, "the cost is more than the whole capacity of the limit {limit:?}")
            }
            (Some(Reason::Store), _) => {
                write!(f, "the cost is more than is admitted while the store of the limit {limit:?} is away")
            }
            (_, Some(wait)) => write!(f, "the limit {limit:?} is used up: try again in {} s", ceil_seconds(wait)),
            (_, None) => write!(f, "the limit {limit:?} is used up"),
        }
    }
}

impl Error for Refusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.outcome().error().map(|error| error as _)
    }
}
