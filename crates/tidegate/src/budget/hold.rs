//! `Hold`: an estimate that was taken from a budget, to be settled with the real cost.

use std::time::Duration;

use tidegate_core::{Decision, Key, Lease, OnStoreError, Timestamp};

use super::settle::refundable;
use super::token::{HoldToken, HoldTokenError};
use super::{Budget, Inner};
use crate::{Call, Error, telemetry};

/// An estimate that was taken from a budget. The first settlement decides the cost. Clones are the same hold, and so is the hold
/// that another process [resumes](Budget::resume). A hold that is never settled expires, and the estimate is the cost.
///
/// A `HoldGuard` settles by itself, for work that counts its cost as it goes on, such as a stream.
#[derive(Debug, Clone)]
#[must_use = "the estimate stands unless it is settled"]
pub struct Hold {
    pub(super) budget: Budget,
    pub(super) key: Key<'static>,
    /// The lease is bound to this.
    pub(super) nonce: u64,
    pub(super) lease: Lease,
    pub(super) estimate: u64,
    /// The units that were missing when the estimate had been taken.
    pub(super) missing: u64,
    /// The time from then until the next units were replenished.
    pub(super) next_after: Duration,
    /// The age of the hold at `since`.
    pub(super) age: Duration,
    pub(super) since: Timestamp,
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
    /// Nothing changed: the hold was settled or cancelled before, or it has expired, and its estimate is the cost. A forged token
    /// gets this answer, too.
    Unchanged,
}

impl Settlement {
    /// The outcome in metrics.
    fn as_str(self) -> &'static str {
        match self {
            Settlement::Full => "full",
            Settlement::Partial(_) => "partial",
            Settlement::Unchanged => "unchanged",
        }
    }
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
    /// changes nothing if it was settled. On a tokio runtime, a call that is dropped before it ends is completed in the background.
    pub async fn settle(&self, cost: u64) -> Result<Settlement, Error> {
        let hold = self.clone();
        let settled = async move { hold.settle_here(cost).await };
        #[cfg(feature = "tokio")]
        let settled = self.budget.complete(settled, |budget, settled| {
            if let Err(error) = settled {
                budget.log_failure(&error);
            }
        });
        settled.await
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

    /// Returns the token of this hold, with which a budget of another process [resumes](Budget::resume) it. An error means that the
    /// key is too long.
    ///
    /// The token can settle and renew this one hold, at any cost that its bearer reports, and nothing else. It contains the key and the
    /// limit's name in readable form. It is at most 32 KiB of lower-case hexadecimal digits and dots.
    pub fn to_token(&self) -> Result<String, HoldTokenError> {
        let Inner { limit, system_clock, .. } = &*self.budget.inner;
        let token = HoldToken {
            limit: (&**limit).into(),
            key: self.key.borrow(),
            nonce: self.nonce,
            estimate: self.estimate,
            missing: self.missing,
            next_after: self.next_after,
            age: self.age(),
            created: system_clock.now(),
        };
        token.to_text()
    }

    fn age(&self) -> Duration {
        self.age.saturating_add(self.budget.inner.clock.now().since(self.since))
    }

    /// Settles the hold, and counts the outcome.
    pub(super) async fn settle_here(&self, cost: u64) -> Result<Settlement, Error> {
        let settled = self.charge(cost).await;
        let outcome = settled.as_ref().map_or("failed", |settlement| settlement.as_str());
        telemetry::record_settlement(&self.budget.inner.limit, outcome);
        settled
    }

    /// Charges the cost if this is the first settlement.
    async fn charge(&self, cost: u64) -> Result<Settlement, Error> {
        let Inner { limiter, limit, holds, .. } = &*self.budget.inner;
        // Before the release: a limit that is gone must not use up the hold.
        let quota = limiter.largest_shard(limit)?;
        let released = fail_closed(limiter.release(holds, &self.key, self.lease)).await?;
        // An admission with a reason is not the store's.
        if !released.is_unconditional() {
            return Ok(Settlement::Unchanged);
        }
        if cost > self.estimate {
            return self.charge_more(cost - self.estimate).await;
        }
        let rest = refundable(&quota, self.estimate - cost, self.missing, self.next_after, self.age());
        if rest > 0 {
            let _ = fail_closed(limiter.refund(limit, &self.key).cost(rest)).await?;
        }
        Ok(Settlement::Full)
    }

    /// Charges the part of the cost above the estimate, as debt if necessary.
    async fn charge_more(&self, mut more: u64) -> Result<Settlement, Error> {
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
            if !reserved.is_unconditional() {
                break;
            }
            more -= piece;
        }
        Ok(if more == 0 { Settlement::Full } else { Settlement::Partial(more) })
    }
}

/// Makes a call fail when the store fails, whatever the limit's policy: an admission without the store settles nothing.
pub(super) fn fail_closed(call: Call<'_>) -> Call<'_> {
    call.on_store_error(OnStoreError::Closed)
}
