//! Budgets for costs that are known only afterwards: the tokens of a language model, the bytes of a response.
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
//!     .limit("holds", Quota::concurrency(10, minutes(2))?) // so many open at once, and for so long
//!     .build()?;
//! let budget = Budget::new(&limiter, "tokens", "holds");
//!
//! let held = budget.hold("alice", 1_000).await?;
//! if held.decision().allowed() {
//!     let cost = ask_the_model().await;
//!     if let Some(hold) = held.hold() {
//!         hold.settle(cost).await?; // up to 258 are given back
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! A hold is a lease of a `concurrency` limit, which makes three promises:
//!
//! - **Once.** Whoever settles or cancels first does so; to do it again, from whatever process, changes nothing.
//! - **In time.** A hold ends after that limit's `ttl`. Then the estimate stands as the cost: work that nobody has heard of
//!   again may have cost that much.
//! - **Bounded.** No more than the limit's capacity of holds are open for a key. So what is spent beyond the quota is at most
//!   as many times what a piece of work costs more than its estimate, and it is debt: later requests wait for it.
//!
//! What is settled below its estimate is given back as far as it is still missing: a bucket that was full again in the
//! meantime would otherwise hold it twice. A hold can know that of itself only; what other holds of the key have given back
//! since may add as much as that to a burst. Sliding windows and logs take what is given back from what was spent last,
//! whoever spent it, and so forget what was spent later sooner: the rest of each open hold may come on top there, once.

mod gives_back;
mod hold;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Decision, Key, Reason};

use crate::clock::{Clock, SteadyClock};
use crate::{Error, Limiter};
pub use hold::{Hold, Settled};

/// A limit on costs that are known only afterwards. Cheap to clone. See the [module](self).
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
    /// Spends from `limit`; `holds` is a `concurrency` limit of the same limiter, which says how many holds a key may have
    /// open and for how long.
    ///
    /// The limit is charged by [`reserve`](Limiter::reserve) where the cost was more than the estimate, so it cannot be one
    /// whose shards are spread: a hold of that is an error.
    pub fn new(limiter: &Limiter, limit: impl Into<Arc<str>>, holds: impl Into<Arc<str>>) -> Self {
        Budget::on(limiter, limit, holds, SteadyClock)
    }

    /// The same by another clock, for tests: the store's.
    pub fn on(
        limiter: &Limiter,
        limit: impl Into<Arc<str>>,
        holds: impl Into<Arc<str>>,
        clock: impl Clock + 'static,
    ) -> Self {
        let (limiter, limit, holds) = (limiter.clone(), limit.into(), holds.into());
        Budget { inner: Arc::new(Inner { limiter, limit, holds, clock: Arc::new(clock) }) }
    }

    /// Takes an estimate of at least 1, to be settled later. Nothing is taken when it is denied: too much is spent, or too
    /// many holds are open.
    ///
    /// Whoever gives up in the middle, by dropping this, may leave a hold behind: it ends by itself, and its estimate stands.
    /// A store that does not answer is asked a second time, to give back the place that it may have given: this waits twice
    /// as long then as any other call.
    pub async fn hold<'a>(&self, key: impl Into<Key<'a>>, estimate: u64) -> Result<Held, Error> {
        let (key, Inner { limiter, limit, holds, clock }) = (key.into(), &*self.inner);
        let quota = limiter.quota(limit)?;
        if limiter.outline(limit)?.is_spread {
            return Err(Error::unsupported(
                limit,
                "its shards are spread, and what a hold costs in the end could not be charged",
            ));
        }
        let admit = limiter.admit(holds, &key);
        let lease = admit.asked_for();
        let place = admit.await;
        // Without an answer nobody knows.
        let may_be_given = match &place {
            Ok(place) => place.lease().is_some() || place.decision().reason() == Some(Reason::Store),
            Err(error) => error.is_retryable(),
        };
        if let Ok(place) = &place
            && !place.decision().allowed()
        {
            return Ok(Held { decision: *place.decision(), hold: None });
        }
        let since = clock.now();
        let taken = match place {
            Ok(place) => limiter.limit(limit, &key).cost(estimate).await.map(|taken| (place.lease(), taken)),
            Err(error) => Err(error),
        };
        match taken {
            // A yes for a reason has taken nothing: the store was broken, or the limit is in shadow mode and used up.
            Ok((Some(lease), decision)) if decision.is_ordinary() => {
                let (budget, key) = (self.clone(), key.borrow().into_owned());
                Ok(Held { decision, hold: Some(Hold { budget, key, lease, estimate, quota, since, decision }) })
            }
            taken => {
                if may_be_given {
                    // If that fails, the place comes back by itself.
                    let _ = limiter.release(holds, &key, lease).await;
                }
                Ok(Held { decision: taken?.1, hold: None })
            }
        }
    }
}

/// What became of a question for a hold.
#[derive(Debug, Clone)]
#[must_use = "a denial is an answer, not an error: nothing is limited unless somebody looks at it"]
pub struct Held {
    decision: Decision,
    hold: Option<Hold>,
}

impl Held {
    /// Whether the work may begin, and what the limit says beside that.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// What to settle. None when it was denied, and when there is nothing that could be settled although the work may begin:
    /// the store was broken and a limit admits then, or it is in shadow mode. If anything was taken, it stands.
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
