//! Budgets for costs that are known only after the work: the tokens of a language model, the bytes of a response.
//!
//! A [`Budget`] holds an estimate before the work begins and settles the real cost when it has ended:
//!
//! ```
//! use tidegate::budget::Budget;
//! use tidegate::{Limiter, Quota, minutes};
//!
//! # async fn ask_the_model() -> u64 { 742 }
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder()
//!     .limit("tokens", Quota::token_bucket(100_000, minutes(1))?)
//!     .limit("holds", Quota::concurrency(10, minutes(2))?) // how many at once, and for how long
//!     .build()?;
//! let budget = Budget::new(&limiter, "tokens", "holds");
//!
//! let held = budget.hold("alice", 1_000).await?;
//! if held.decision().allowed() {
//!     let cost = ask_the_model().await;
//!     if let Some(hold) = held.hold() {
//!         hold.settle(cost).await?; // refunds up to 258
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! A hold is a lease of a `concurrency` limit, which guarantees:
//!
//! - **Once.** The first settlement or cancellation counts. Repeating it, from any process, changes nothing.
//! - **In time.** A hold expires after that limit's `ttl`. Then the estimate is the cost: work that never reported may have cost
//!   that much.
//! - **Bounded.** A key has at most that limit's capacity of open holds. So the cost beyond the quota is at most that many times
//!   what one piece of work costs above its estimate, and it is debt: later requests wait for it.
//!
//! A settlement below the estimate refunds the difference, except what has been replenished meanwhile: a bucket that is full again
//! would otherwise get it twice. A hold knows this only about itself, so refunds of other holds of the key may add as much to a
//! burst. In sliding windows and logs a refund cancels the latest units, of any request, so later units are forgotten sooner: there
//! the unspent part of each open hold may be admitted in addition, once.

mod hold;
mod settle;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Decision, Key, Reason};

use crate::clock::{Clock, SteadyClock};
use crate::{Error, Limiter};
pub use hold::{Hold, Settlement};

/// A limit on costs that are known only after the work. Cheap to clone. See the [module](self).
#[derive(Clone)]
pub struct Budget {
    inner: Arc<Inner>,
}

struct Inner {
    limiter: Limiter,
    limit: Arc<str>,
    holds: Arc<str>,
    clock: Arc<dyn Clock>,
}

impl Budget {
    /// Creates a budget that spends from `limit`. `holds` is a `concurrency` limit of the same limiter, whose quota is how many
    /// holds a key may have open and for how long.
    ///
    /// A cost above the estimate is charged by [`reserve`](Limiter::reserve).
    pub fn new(limiter: &Limiter, limit: impl Into<Arc<str>>, holds: impl Into<Arc<str>>) -> Self {
        Budget::with_clock(limiter, limit, holds, SteadyClock)
    }

    /// Creates a budget on another clock, for tests: the store's.
    pub fn with_clock(
        limiter: &Limiter,
        limit: impl Into<Arc<str>>,
        holds: impl Into<Arc<str>>,
        clock: impl Clock + 'static,
    ) -> Self {
        let (limiter, limit, holds) = (limiter.clone(), limit.into(), holds.into());
        Budget { inner: Arc::new(Inner { limiter, limit, holds, clock: Arc::new(clock) }) }
    }

    /// Takes an estimate of at least 1, to be settled later. It is denied, and takes nothing, when the limit is used up or too
    /// many holds are open.
    ///
    /// A call that is dropped before it ends may leave a hold behind, which expires with its estimate as the cost. When the store
    /// fails, a second call releases the lease that it may have given, so this waits twice as long as other calls.
    pub async fn hold<'a>(&self, key: impl Into<Key<'a>>, estimate: u64) -> Result<HoldDecision, Error> {
        let (key, Inner { limiter, limit, holds, clock }) = (key.into(), &*self.inner);
        let quota = limiter.quota(limit)?;
        let admit = limiter.admit(holds, &key);
        let lease = admit.requested_lease();
        let place = admit.await;
        // Without an answer it is unknown.
        let may_be_given = match &place {
            Ok(place) => place.lease().is_some() || place.decision().reason() == Some(Reason::Store),
            Err(error) => error.is_retryable(),
        };
        if let Ok(place) = &place
            && !place.decision().allowed()
        {
            return Ok(HoldDecision { decision: *place.decision(), hold: None });
        }
        let since = clock.now();
        let taken = match place {
            Ok(place) => limiter.limit(limit, &key).cost(estimate).await.map(|taken| (place.lease(), taken)),
            Err(error) => Err(error),
        };
        match taken {
            // An admission with a reason has taken nothing: the store failed, or the limit is in shadow mode and used up.
            Ok((Some(lease), decision)) if decision.is_unconditional() => {
                let (budget, key) = (self.clone(), key.borrow().into_owned());
                Ok(HoldDecision { decision, hold: Some(Hold { budget, key, lease, estimate, quota, since, decision }) })
            }
            taken => {
                if may_be_given {
                    // If that fails, the lease expires.
                    let _ = limiter.release(holds, &key, lease).await;
                }
                Ok(HoldDecision { decision: taken?.1, hold: None })
            }
        }
    }
}

/// The decision about a hold, with the hold if there is one.
#[derive(Debug, Clone)]
#[must_use = "a denial is a value, not an error: check it, or nothing is limited"]
pub struct HoldDecision {
    decision: Decision,
    hold: Option<Hold>,
}

impl HoldDecision {
    /// Returns the decision: whether the work may begin.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns the hold to settle. `None` when it was denied, and when there is nothing to settle although the work may begin: the
    /// store failed and the limit fails open, or it is in shadow mode. Units that were taken stay taken.
    pub fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { limit, holds, .. } = &*self.inner;
        f.debug_struct("Budget").field("limit", limit).field("holds", holds).finish_non_exhaustive()
    }
}
