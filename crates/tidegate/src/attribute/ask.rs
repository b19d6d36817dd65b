//! The question that the attribute writes in front of a function.

use std::net::IpAddr;

use tidegate_core::Key;

use super::Refusal;
use super::default_limiter::default_limiter;
use crate::enforce::{Caller, Enforcer, Outcome, Step};
#[cfg(feature = "tower")]
use crate::transport::tower::scope::{self, Above};
use crate::{Error, Limiter};

/// The question that `#[limit]` writes in front of a function. Not for hands.
#[derive(Debug)]
#[must_use]
pub struct Ask {
    limit: &'static str,
    key: Key<'static>,
    cost: u64,
    limiter: Option<Limiter>,
    #[cfg_attr(not(feature = "tower"), allow(dead_code))] // there are no layers to count besides of
    also: bool,
}

impl Ask {
    /// Asks a limit about a key.
    pub fn new(limit: &'static str, key: Key<'static>) -> Self {
        Ask { limit, key, cost: 1, limiter: None, also: false }
    }

    /// How much the call takes.
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Whom to ask.
    pub fn limiter(mut self, limiter: &Limiter) -> Self {
        self.limiter = Some(limiter.clone());
        self
    }

    /// Besides the layer above, not in its place.
    pub fn also(mut self) -> Self {
        self.also = true;
        self
    }

    /// Asks.
    pub async fn enforce(self) -> Result<(), Refusal> {
        #[cfg(feature = "tower")]
        if let Some(above) = scope::above(!self.also) {
            return self.enforce_under(above).await;
        }
        admitted(self.outcome(None, None).await).map_err(Refusal::new)
    }

    #[cfg(feature = "tower")]
    async fn enforce_under(self, above: Above) -> Result<(), Refusal> {
        let Above { layer, taken, told } = above;
        if let Some((asking, outcome)) = taken {
            // First, because attribute and layer may name the same limit and key.
            asking.give_back(&outcome).await;
        }
        // It replaces nobody: it says `also`, or another attribute has replaced the layer already.
        let besides = told.is_none();
        let outcome = self.outcome(layer.enforcer.as_ref(), layer.address).await;
        if let Some(told) = told {
            told.set(outcome.clone()).expect("nobody else was given it");
        }
        admitted(outcome).map_err(|outcome| Refusal::new(outcome).answered_by(layer.rate_limit, besides))
    }

    /// What the limit says, with what the layer above is known for.
    async fn outcome(self, above: Option<&Enforcer>, address: Option<IpAddr>) -> Outcome {
        // An admission may have no limits, and then it knows no limiter.
        let layers = above.filter(|above| above.has_limits()).map(Enforcer::limiter);
        let Some(limiter) = self.limiter.as_ref().or(layers).or_else(|| default_limiter()) else {
            return Outcome::invalid(Error::NoLimiter);
        };
        let mut enforcer = Enforcer::new(limiter, self.limit);
        if let Some(above) = above {
            enforcer = enforcer.with_hooks_of(above);
        }
        enforcer.ask(&Caller::of(self.key, address), self.cost, Step::Take).await
    }
}

fn admitted(outcome: Outcome) -> Result<(), Outcome> {
    if outcome.is_allowed() { Ok(()) } else { Err(outcome) }
}
