//! `Hold`: an estimate that was taken from a budget, to be settled with the real cost.

use tidegate_core::{Decision, Key, Lease, OnStoreError, Quota, Timestamp};

use super::settle::refundable;
use super::{Budget, Inner};
use crate::{Call, Error};

/// An estimate that was taken from a budget. The first settlement decides the cost. Clones are the same hold. A hold that is never
/// settled expires, and the estimate is the cost.
#[derive(Debug, Clone)]
#[must_use = "the estimate stands unless it is settled"]
pub struct Hold {
    pub(super) budget: Budget,
    pub(super) key: Key<'static>,
    pub(super) lease: Lease,
    pub(super) estimate: u64,
    /// The quota that it was taken from.
    pub(super) quota: Quota,
    pub(super) since: Timestamp,
    /// The decision of the hold.
    pub(super) decision: Decision,
}

/// The result of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// The whole cost was charged.
    Full,
    /// All but this part of the cost was charged. More would have exceeded the limit's `max_debt`, or is more than a hundred
    /// times its capacity.
    Partial(u64),
    /// Nothing changed: the hold was settled or cancelled before, or it has expired, and its estimate is the cost.
    Unchanged,
}

/// The most calls that charge the rest of a cost.
const MAX_CHARGES: u32 = 100;

impl Hold {
    /// Returns the estimate.
    pub fn estimate(&self) -> u64 {
        self.estimate
    }

    /// Charges the real cost, which may be 0, instead of the estimate.
    ///
    /// After an error the hold may or may not be settled, and at worst the estimate is the cost. It is safe to try again: that
    /// changes nothing if it was settled.
    pub async fn settle(&self, cost: u64) -> Result<Settlement, Error> {
        let Inner { limiter, holds, clock, .. } = &*self.budget.inner;
        let released = fail_closed(limiter.release(holds, &self.key, self.lease)).await?;
        // An admission with a reason is not the store's.
        if !released.allowed() || released.reason().is_some() {
            return Ok(Settlement::Unchanged);
        }
        if cost > self.estimate {
            return self.charge(cost - self.estimate).await;
        }
        let elapsed = clock.now().since(self.since);
        self.refund(refundable(&self.quota, self.estimate - cost, &self.decision, elapsed)).await
    }

    /// Extends the hold to the full time from now, for work that takes longer. Denied when the hold has expired.
    pub async fn renew(&self) -> Result<Decision, Error> {
        let Inner { limiter, holds, .. } = &*self.budget.inner;
        fail_closed(limiter.renew(holds, &self.key, self.lease)).await
    }

    /// Refunds the estimate, for work that was not begun.
    pub async fn cancel(&self) -> Result<Settlement, Error> {
        self.settle(0).await
    }

    async fn refund(&self, rest: u64) -> Result<Settlement, Error> {
        let Inner { limiter, limit, .. } = &*self.budget.inner;
        if rest > 0 {
            let _ = fail_closed(limiter.refund(limit, &self.key).cost(rest)).await?;
        }
        Ok(Settlement::Full)
    }

    /// Charges the part of the cost above the estimate, as debt if necessary.
    async fn charge(&self, mut more: u64) -> Result<Settlement, Error> {
        let Inner { limiter, limit, .. } = &*self.budget.inner;
        // One call can reserve at most the capacity, and of a limit in shards that of one shard.
        let most = u64::from(limiter.summary(limit)?.shard_capacity);
        for _ in 0..MAX_CHARGES {
            let piece = more.min(most);
            if piece == 0 {
                return Ok(Settlement::Full);
            }
            let reserved = fail_closed(limiter.reserve(limit, &self.key).cost(piece)).await?;
            // An admission with a reason has taken nothing.
            if !reserved.allowed() || reserved.reason().is_some() {
                break;
            }
            more -= piece;
        }
        Ok(if more == 0 { Settlement::Full } else { Settlement::Partial(more) })
    }
}

/// Makes a call fail when the store fails, whatever the limit's policy: an admission without the store settles nothing.
fn fail_closed(call: Call<'_>) -> Call<'_> {
    call.on_store_error(OnStoreError::Closed)
}
