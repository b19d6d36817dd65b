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
//! With the feature `tokio`, a `HoldGuard` settles by itself when it is dropped, with the cost recorded so far. It is
//! for a stream whose client may disconnect.
//!
//! A hold is a lease of a `concurrency` limit, which guarantees:
//!
//! - **Once.** The first settlement or cancellation counts. Repeating it changes nothing, in this process or in another one that has
//!   the hold's [token](Hold::to_token) and a limiter on the same store.
//! - **In time.** A hold expires after that limit's `ttl`. Then the estimate is the cost: work that never reported may have cost
//!   that much.
//! - **Bounded.** A key has at most that limit's capacity of open holds. So the cost beyond the quota is at most that
//!   many times the excess of one piece of work over its estimate. The excess is debt, and later requests wait for it.
//!
//! A settlement below the estimate refunds the difference, except the units replenished meanwhile. Otherwise a bucket
//! that is full again would get them twice. A hold knows this only about itself, so refunds of other holds of the key
//! may add as much to a burst. Between processes, the system clocks measure the time since the hold. If the clock of
//! the settling process is late, the units replenished in the difference may be credited twice, at most the unspent
//! part. In sliding windows and logs, a refund cancels the latest units of any request, so later units are forgotten
//! sooner. There, the unspent part of each open hold may be admitted in addition, once.
//!
//! # Metrics
//!
//! With the feature `metrics`, the counter `tidegate_settlements_total` has the labels `limit` and `outcome`:
//!
//! | outcome | |
//! | --- | --- |
//! | `full`, `partial`, `unchanged` | the [`Settlement`] |
//! | `failed` | the store failed, and the estimate may stand |
//! | `lost` | it was left to the background, where its runtime ended first or 10,000 were pending already; the estimate stands |
//!
//! With the feature `tracing`, failures in the background are logged, at most once a second.

#[cfg(feature = "tokio")]
mod background;
#[cfg(feature = "tokio")]
mod guard;
mod hold;
mod settle;
mod token;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Key, Reason};

use crate::clock::{Clock, SteadyClock, SystemClock};
use crate::{Error, Limiter, telemetry};
#[cfg(feature = "tokio")]
use background::Background;
#[cfg(feature = "tokio")]
pub use guard::HoldGuard;
use hold::fail_closed;
pub use hold::{Hold, Settlement};
pub use token::HoldTokenError;
use token::{HoldToken, bound_lease};

/// A limit on costs that are known only after the work. Cheap to clone. See the [module](self).
#[derive(Clone)]
pub struct Budget {
    inner: Arc<Inner>,
}

struct Inner {
    limiter: Limiter,
    limit: Arc<str>,
    holds: Arc<str>,
    /// The clock that measures spans. It cannot be set.
    clock: Arc<dyn Clock>,
    /// The clock whose times mean the same to other processes.
    system_clock: Arc<dyn Clock>,
    #[cfg(feature = "tokio")]
    background: Background,
}

impl Budget {
    /// Creates a budget that spends from `limit`. `holds` is a `concurrency` limit of the same limiter, whose quota is how many
    /// holds a key may have open and for how long.
    ///
    /// A cost above the estimate is charged by [`reserve`](Limiter::reserve).
    pub fn new(limiter: &Limiter, limit: impl Into<Arc<str>>, holds: impl Into<Arc<str>>) -> Self {
        Budget::with_clocks(limiter, limit.into(), holds.into(), Arc::new(SteadyClock), Arc::new(SystemClock))
    }

    /// Creates a budget on another clock, for tests: the store's.
    pub fn with_clock(
        limiter: &Limiter,
        limit: impl Into<Arc<str>>,
        holds: impl Into<Arc<str>>,
        clock: impl Clock + 'static,
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        Budget::with_clocks(limiter, limit.into(), holds.into(), Arc::clone(&clock), clock)
    }

    fn with_clocks(
        limiter: &Limiter,
        limit: Arc<str>,
        holds: Arc<str>,
        clock: Arc<dyn Clock>,
        system_clock: Arc<dyn Clock>,
    ) -> Self {
        telemetry::describe_metrics();
        let inner = Inner {
            limiter: limiter.clone(),
            limit,
            holds,
            clock,
            system_clock,
            #[cfg(feature = "tokio")]
            background: Background::default(),
        };
        Budget { inner: Arc::new(inner) }
    }

    /// Takes an estimate of at least 1, to be settled later. It is denied, and takes nothing, when the limit is used up or too
    /// many holds are open.
    ///
    /// On a tokio runtime, a call that is dropped before it ends is completed in the background, and its hold
    /// cancelled. Elsewhere it may leave a hold behind, which expires with its estimate as the cost. When the store
    /// fails, a second call releases a lease that it may have given. So this waits twice as long as other calls.
    pub async fn hold<'a>(&self, key: impl Into<Key<'a>>, estimate: u64) -> Result<HoldDecision, Error> {
        let held = self.clone().hold_owned(key.into().into_owned(), estimate);
        #[cfg(feature = "tokio")]
        let held = self.complete(held, |_, held| {
            if let Ok(HoldDecision { hold: Some(hold), .. }) = held {
                hold.settle_in_background(0, &tokio::runtime::Handle::current());
            }
        });
        held.await
    }

    async fn hold_owned(self, key: Key<'static>, estimate: u64) -> Result<HoldDecision, Error> {
        let Inner { limiter, limit, holds, clock, .. } = &*self.inner;
        limiter.check_name(limit)?;
        let admit = limiter.admit(holds, &key);
        // The limiter's leases are unique and cannot be guessed.
        let nonce = admit.requested_lease().to_bits();
        let lease = bound_lease(limit, &key, nonce, estimate);
        let place = admit.lease(lease).await;
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
            Ok(place) => {
                let is_held = place.lease().is_some();
                match fail_closed(limiter.limit(limit, &key).cost(estimate)).await {
                    // What the failure policy admits is not taken from the store, and must not be refunded to it.
                    Err(error) if error.is_retryable() => {
                        limiter.limit(limit, &key).cost(estimate).await.map(|decision| (false, decision))
                    }
                    taken => taken.map(|decision| (is_held, decision)),
                }
            }
            Err(error) => Err(error),
        };
        match taken {
            // An admission with a reason has taken nothing: the store failed, or the limit is in shadow mode and used up.
            Ok((true, decision)) if decision.is_unconditional() => {
                let missing = decision.limit() - decision.remaining();
                let (next_after, age) = (decision.next_after().unwrap_or_default(), Duration::ZERO);
                let budget = self.clone();
                let hold = Hold { budget, key, nonce, lease, estimate, missing, next_after, age, since };
                Ok(HoldDecision { decision, hold: Some(hold) })
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

    /// Resumes the hold of a [token](Hold::to_token), to settle or renew it in another process. Its limiter must have the same store,
    /// prefix and limits.
    ///
    /// The store is not asked. [`Settlement::Unchanged`] tells of a hold that was settled, has expired or never existed.
    pub fn resume(&self, token: &str) -> Result<Hold, HoldTokenError> {
        let Inner { limit, clock, system_clock, .. } = &*self.inner;
        let token = HoldToken::parse(token)?;
        if *token.limit != **limit {
            return Err(HoldTokenError::OtherLimit(limit.to_string()));
        }
        let lease = token.lease();
        let age = token.age.saturating_add(system_clock.now().since(token.created));
        let HoldToken { key, nonce, estimate, missing, next_after, .. } = token;
        let (budget, since) = (self.clone(), clock.now());
        Ok(Hold { budget, key, nonce, lease, estimate, missing, next_after, age, since })
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

    /// Returns the hold to settle. `None` when it was denied. It is also `None` if the work may begin without a hold,
    /// because the store failed and the limit fails open, or because of shadow mode. Units that were taken stay taken.
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
