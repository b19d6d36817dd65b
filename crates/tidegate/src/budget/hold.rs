//! An estimate that is to be settled.

use tidegate_core::{Decision, Key, Lease, OnStoreError, Quota, Timestamp};

use super::gives_back::gives_back;
use super::{Budget, Inner};
use crate::{Call, Error};

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
    /// What was decided then.
    pub(super) decision: Decision,
}

/// What became of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The budget has been charged what the work cost.
    Whole,
    /// The budget has been charged, but for so much: more would have passed its `max_debt`, or is more than a hundred times
    /// what it can hold.
    Short(u64),
    /// Nothing was changed: the hold was settled or cancelled before, or it has ended, and its estimate stands.
    Unchanged,
}

/// In how many pieces the rest of a cost is charged, at most.
const MOST_PIECES: u32 = 100;

impl Hold {
    /// What was taken.
    pub fn estimate(&self) -> u64 {
        self.estimate
    }

    /// Charges what the work cost, which may be nothing, instead of the estimate.
    ///
    /// After an error nobody knows whether it was settled, and at worst the estimate stands: whoever tries again settles it if
    /// it was not, and changes nothing if it was.
    pub async fn settle(&self, cost: u64) -> Result<Settled, Error> {
        let Inner { limiter, holds, clock, .. } = &*self.budget.inner;
        let released = surely(limiter.release(holds, &self.key, self.lease)).await?;
        // A yes for a reason is not the store's.
        if !released.allowed() || released.reason().is_some() {
            return Ok(Settled::Unchanged);
        }
        if cost > self.estimate {
            return self.charge(cost - self.estimate).await;
        }
        let elapsed = clock.now().since(self.since);
        self.give_back(gives_back(&self.quota, self.estimate - cost, &self.decision, elapsed)).await
    }

    /// Holds on for the whole time of a hold from now, for work that takes longer. Denied when the hold has ended.
    pub async fn renew(&self) -> Result<Decision, Error> {
        let Inner { limiter, holds, .. } = &*self.budget.inner;
        surely(limiter.renew(holds, &self.key, self.lease)).await
    }

    /// Gives the estimate back: the work was not begun.
    pub async fn cancel(&self) -> Result<Settled, Error> {
        self.settle(0).await
    }

    async fn give_back(&self, rest: u64) -> Result<Settled, Error> {
        let Inner { limiter, limit, .. } = &*self.budget.inner;
        if rest > 0 {
            let _ = surely(limiter.refund(limit, &self.key).cost(rest)).await?;
        }
        Ok(Settled::Whole)
    }

    /// Charges what the work cost more, as debt where it has to be.
    async fn charge(&self, mut more: u64) -> Result<Settled, Error> {
        let Inner { limiter, limit, .. } = &*self.budget.inner;
        // No more than the capacity can be reserved at once, and of a limit in shards no more than a part's.
        let most = u64::from(limiter.outline(limit)?.part_capacity);
        for _ in 0..MOST_PIECES {
            let piece = more.min(most);
            if piece == 0 {
                return Ok(Settled::Whole);
            }
            let reserved = surely(limiter.reserve(limit, &self.key).cost(piece)).await?;
            // A yes for a reason has taken nothing.
            if !reserved.allowed() || reserved.reason().is_some() {
                break;
            }
            more -= piece;
        }
        Ok(if more == 0 { Settled::Whole } else { Settled::Short(more) })
    }
}

/// A call that fails where the store is broken, whatever the policy: to be admitted is not to be settled.
fn surely(call: Call<'_>) -> Call<'_> {
    call.on_store_error(OnStoreError::Closed)
}
