//! The call of a function with `#[limit]`: selects the limiter, under a layer or without one.

use std::net::IpAddr;
use std::sync::OnceLock;

use tidegate_core::Key;

use super::LimitError;
use crate::enforce::{Action, Caller, Enforcer, Outcome};
#[cfg(feature = "tower")]
use crate::tower::scope::{self, EnclosingLayer};
use crate::{Error, Limiter};

/// A call to a limit, in code that `#[limit]` generates. Not for direct use.
#[derive(Debug)]
#[must_use]
pub struct LimitedCall {
    limit: &'static str,
    key: Key<'static>,
    cost: u64,
    limiter: Option<Limiter>,
    #[cfg_attr(not(feature = "tower"), allow(dead_code))] // without layers there is nothing to add to
    in_addition: bool,
}

impl LimitedCall {
    /// Returns a call to a limit for a key, at a cost of 1.
    pub fn new(limit: &'static str, key: Key<'static>) -> Self {
        LimitedCall { limit, key, cost: 1, limiter: None, in_addition: false }
    }

    /// Sets the cost.
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Sets the limiter.
    pub fn limiter(mut self, limiter: &Limiter) -> Self {
        self.limiter = Some(limiter.clone());
        self
    }

    /// Counts in addition to the layer above, instead of replacing it.
    pub fn also(mut self) -> Self {
        self.in_addition = true;
        self
    }

    /// Checks the limit.
    pub async fn enforce(self) -> Result<(), LimitError> {
        #[cfg(feature = "tower")]
        if let Some(above) = scope::enclosing_layer(!self.in_addition) {
            return self.enforce_under_layer(above).await;
        }
        require_allowed(self.outcome(None, None).await).map_err(LimitError::new)
    }

    #[cfg(feature = "tower")]
    async fn enforce_under_layer(self, above: EnclosingLayer) -> Result<(), LimitError> {
        let EnclosingLayer { layer, taken, recorded } = above;
        if let Some((pending, outcome)) = taken {
            // First, because attribute and layer may share limit and key.
            pending.refund(&outcome).await;
        }
        // It replaces no layer: it says `also`, or another attribute has replaced the layer already.
        let in_addition = recorded.is_none();
        let outcome = self.outcome(layer.enforcer.as_ref(), layer.address).await;
        if let Some(recorded) = recorded {
            recorded.set(outcome.clone()).expect("only this call has the cell");
        }
        require_allowed(outcome).map_err(|outcome| LimitError::new(outcome).with_layer(layer.rate_limit, in_addition))
    }

    /// Returns the outcome, with the limiter, hooks and address of the layer above.
    async fn outcome(self, above: Option<&Enforcer>, address: Option<IpAddr>) -> Outcome {
        // An admission without limits has no limiter.
        let layers = above.filter(|above| above.has_limits()).map(Enforcer::limiter);
        let Some(limiter) = self.limiter.as_ref().or(layers).or_else(|| default_limiter()) else {
            return Outcome::invalid(Error::NoLimiter);
        };
        let mut enforcer = Enforcer::unchecked(limiter, self.limit);
        if let Some(above) = above {
            enforcer = enforcer.with_hooks_of(above);
        }
        enforcer.apply(&Caller::from_key(self.key, address), self.cost, Action::Limit).await
    }
}

fn require_allowed(outcome: Outcome) -> Result<(), Outcome> {
    if outcome.is_allowed() { Ok(()) } else { Err(outcome) }
}

static DEFAULT_LIMITER: OnceLock<Limiter> = OnceLock::new();

/// Sets the limiter for attributes without a limiter of their own or a layer. Call it once, before the first call: a
/// limit that moved to another limiter would start anew.
pub fn set_default_limiter(limiter: Limiter) -> Result<(), SetDefaultLimiterError> {
    DEFAULT_LIMITER.set(limiter).map_err(|_| SetDefaultLimiterError)
}

pub(super) fn default_limiter() -> Option<&'static Limiter> {
    DEFAULT_LIMITER.get()
}

/// The default limiter is already set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the default limiter of this process was set before")]
pub struct SetDefaultLimiterError;
