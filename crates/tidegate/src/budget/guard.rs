//! `HoldGuard`: a hold that settles itself when it is dropped.

use tidegate_core::private::poll_once;
use tokio::runtime::Handle;

use super::{Hold, HoldDecision, Settlement};
use crate::Error;

/// A hold that is settled when it is dropped, with the cost that was recorded until then.
///
/// It is for work that is dropped in the middle, such as the stream of a response to a client that disconnects. Move it
/// into the stream, and record each piece as it is sent:
///
/// ```
/// use tidegate::budget::Budget;
///
/// # async fn send(piece: &[u8]) -> std::io::Result<()> { Ok(()) }
/// # async fn example(budget: Budget, pieces: Vec<Vec<u8>>) -> Result<(), Box<dyn std::error::Error>> {
/// let held = budget.hold("alice", 1_000).await?;
/// if held.decision().allowed() {
///     let mut guard = held.into_guard()?;
///     for piece in pieces {
///         send(&piece).await?; // on an error, and when this future is dropped, the guard settles
///         guard.record(piece.len() as u64);
///     }
/// }
/// # Ok(()) }
/// ```
///
/// With a store that answers at once, the drop settles. With a store that does I/O, the drop leaves the settlement to a
/// task on the runtime where the guard was created. A failed settlement is not retried, and one whose runtime ends
/// first is lost. The [metrics](super#metrics) count both, and the estimate is the cost.
/// [`Budget::flush`](super::Budget::flush) waits for all settlements before a program ends.
///
/// A guard does not [renew](Hold::renew) its hold. Work that takes longer than the `ttl` of the holds must renew it.
#[derive(Debug)]
#[must_use = "a guard that is dropped settles its hold"]
pub struct HoldGuard {
    /// `None` when there is nothing to settle.
    hold: Option<Hold>,
    cost: u64,
    /// `None` when the store answers at once.
    runtime: Option<Handle>,
}

impl Hold {
    /// Returns a guard that settles this hold when it is dropped. [`Error::NoRuntime`] when the store does I/O and there is no tokio
    /// runtime to settle on.
    pub fn into_guard(self) -> Result<HoldGuard, Error> {
        let runtime = match self.budget.inner.limiter.is_immediate() {
            true => None,
            false => Some(Handle::try_current().map_err(|_| Error::NoRuntime)?),
        };
        Ok(HoldGuard { hold: Some(self), cost: 0, runtime })
    }
}

impl HoldDecision {
    /// Returns a guard that settles the hold when it is dropped, as [`Hold::into_guard`] does. Without a [hold](Self::hold) it settles
    /// nothing.
    pub fn into_guard(self) -> Result<HoldGuard, Error> {
        match self.hold {
            Some(hold) => hold.into_guard(),
            None => Ok(HoldGuard { hold: None, cost: 0, runtime: None }),
        }
    }
}

impl HoldGuard {
    /// Adds to the cost.
    pub fn record(&mut self, cost: u64) {
        self.cost = self.cost.saturating_add(cost);
    }

    /// Returns the cost recorded so far.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the hold, to renew it. `None` when there is nothing to settle.
    pub fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }

    /// Settles the hold with the recorded cost, and returns the result. [`Settlement::Unchanged`] when there is nothing to settle.
    pub async fn settle(mut self) -> Result<Settlement, Error> {
        match self.hold.take() {
            Some(hold) => hold.settle(self.cost).await,
            None => Ok(Settlement::Unchanged),
        }
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        let Some(hold) = self.hold.take() else { return };
        match self.runtime.take() {
            Some(runtime) => hold.settle_in_background(self.cost, &runtime),
            None => {
                if let Err(error) = poll_once(hold.settle_here(self.cost)) {
                    hold.budget.log_failure(&error);
                }
            }
        }
    }
}
