//! An estimate that is to be settled.

use std::time::Duration;

use tidegate_core::{Key, Lease, Quota, Timestamp};

use super::{Budget, Inner, comes_back};
use crate::Error;

/// An estimate that is to be settled: by the first who says what it cost. Clones are the same hold. One that is never
/// settled ends by itself, and the estimate stands.
#[derive(Debug, Clone)]
#[must_use = "the estimate stands unless it is settled"]
pub struct Hold {
    pub(super) budget: Budget,
    pub(super) key: Key<'static>,
    pub(super) lease: Lease,
    pub(super) estimate: u64,
    /// What it was taken under.
    pub(super) quota: Quota,
    pub(super) since: Timestamp,
    pub(super) next_after: Option<Duration>,
}

/// What became of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The budget has been charged what the work cost.
    Whole,
    /// The budget has been charged, but for so much: more would have passed its `max_debt`.
    Short(u64),
    /// Nothing was changed: the hold was settled or cancelled before, or it has ended, and its estimate stands.
    Unchanged,
}

impl Hold {
    /// What was taken.
    pub fn estimate(&self) -> u64 {
        self.estimate
    }

    /// Charges what the work cost, which may be nothing, instead of the estimate.
    ///
    /// After an error nobody knows whether it was settled; at worst the estimate stands. It may be tried again.
    pub async fn settle(&self, cost: u64) -> Result<Settled, Error> {
        let Inner { limiter, holds, clock, .. } = &*self.budget.inner;
        let released = limiter.release(holds, &self.key, self.lease).await?;
        // A yes for a reason is not the store's.
        if !released.allowed() || released.reason().is_some() {
            return Ok(Settled::Unchanged);
        }
        if cost > self.estimate {
            return self.charge(cost - self.estimate).await;
        }
        let elapsed = clock.now().since(self.since);
        let back = comes_back::by_itself(&self.quota, self.estimate, elapsed, self.next_after);
        self.give_back((self.estimate - cost).saturating_sub(back)).await
    }

    /// Gives the estimate back: the work was not begun.
    pub async fn cancel(&self) -> Result<Settled, Error> {
        self.settle(0).await
    }

    async fn give_back(&self, rest: u64) -> Result<Settled, Error> {
        let Inner { limiter, limit, .. } = &*self.budget.inner;
        if rest > 0 {
            limiter.refund(limit, &self.key).cost(rest).await?;
        }
        Ok(Settled::Whole)
    }

    /// Charges what the work cost more, as debt where it has to be.
    async fn charge(&self, mut more: u64) -> Result<Settled, Error> {
        let Inner { limiter, limit, .. } = &*self.budget.inner;
        // No more than the capacity can be reserved at once.
        let most = u64::from(limiter.quota(limit)?.parts().capacity);
        while more > 0 {
            let part = more.min(most);
            if !limiter.reserve(limit, &self.key).cost(part).await?.allowed() {
                return Ok(Settled::Short(more));
            }
            more -= part;
        }
        Ok(Settled::Whole)
    }
}
