//! One denial, and for how long what it says is so.

use tidegate_core::{Algorithm, Cost, Decision, DecisionParts, Quota, Reason, Timestamp};

/// A denial that is remembered.
#[derive(Clone, Copy)]
pub(super) struct Denial {
    quota: Quota,
    cost: u64,
    parts: DecisionParts,
    /// How long a retry had to wait, in microseconds.
    retry: u64,
    /// When it was known.
    known: Timestamp,
    /// Until when it is remembered.
    until: Timestamp,
}

impl Denial {
    /// What is remembered of a decision that was asked for at `asked` and known at `known`; none when there is nothing to
    /// remember.
    pub(super) fn of(
        quota: &Quota,
        cost: Cost,
        decision: &Decision,
        asked: Timestamp,
        known: Timestamp,
    ) -> Option<Self> {
        let parts = decision.into_parts();
        let retry = parts.retry_after.filter(|_| !parts.allowed && parts.reason == Some(Reason::Rate))?;
        // The store decided between these two, and its span counts from then. So it is remembered from the earlier one, and
        // told from the later: neither is it denied here what the store would admit, nor told a time that is too early.
        let until = Timestamp::from_micros(asked.as_micros().saturating_add(retry));
        (known < until).then_some(Denial { quota: *quota, cost: cost.get(), parts, retry, known, until })
    }

    /// What it says to whoever asks for `cost` under `quota` at `now`; none when the store has to be asked.
    pub(super) fn answer(&self, quota: &Quota, cost: Cost, now: Timestamp) -> Option<Decision> {
        let cost = cost.get();
        let holds = self.is_under(quota)
            && (self.cost..=u64::from(self.parts.limit)).contains(&cost)
            // A clock that went back says nothing about spans.
            && (self.known..self.until).contains(&now);
        if !holds {
            return None;
        }
        let passed = now.as_micros() - self.known.as_micros();
        let (retry, reset) = (self.retry - passed, self.parts.reset_after.saturating_sub(passed));
        let longer = self.longer(cost - self.cost).and_then(|longer| retry.checked_add(longer));
        let parts = DecisionParts {
            // For more than was denied, the latest that it can be: with everything back, it is there.
            retry_after: Some(longer.unwrap_or(reset).min(reset).max(retry)),
            // What is left may have grown since; more is known when the store is asked again.
            next_after: Some(self.parts.next_after.and_then(|next| next.checked_sub(passed)).unwrap_or(retry)),
            reset_after: reset,
            ..self.parts
        };
        Some(parts.into())
    }

    /// In how many microseconds so much more is there at the latest; none when that is not said by the quota.
    fn longer(&self, units: u64) -> Option<u64> {
        let parts = self.quota.parts();
        let (rate, period) = (u128::from(parts.rate), parts.period.as_micros());
        let span = match parts.algorithm {
            _ if units == 0 => 0,
            Algorithm::TokenBucket => (u128::from(units) * period).div_ceil(rate),
            Algorithm::FixedWindow => u128::from(units).div_ceil(rate) * period,
            _ => return None,
        };
        u64::try_from(span).ok()
    }

    /// Whether it was under this quota.
    pub(super) fn is_under(&self, quota: &Quota) -> bool {
        self.quota == *quota
    }

    /// Until when it is remembered.
    pub(super) fn until(&self) -> Timestamp {
        self.until
    }

    /// Whether everybody whom this one answers is answered by the other, too.
    pub(super) fn is_within(&self, other: &Denial) -> bool {
        self.quota == other.quota && self.cost >= other.cost && self.until <= other.until
    }
}
