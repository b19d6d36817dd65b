//! Starts full, refills continuously.
//!
//! One unit is `unit` sub-units and a microsecond brings `refill` of them, both whole numbers without a common
//! divisor; so a bucket is kept exactly, and asking often never loses a fraction.

use super::arithmetic::{div_ceil, div_floor};
use super::{State, View};
use crate::{Quota, Timestamp};

pub(super) struct TokenBucket {
    capacity: u64,
    unit: u64,
    refill: u64,
    deficit: u128,
    at: Timestamp,
}

impl TokenBucket {
    /// The bucket at `at`, whose deficit was `deficit` at `last`.
    #[inline]
    pub(super) fn new(quota: &Quota, deficit: u128, last: Timestamp, at: Timestamp) -> Self {
        let elapsed = at.as_micros() - last.as_micros();
        let refilled = u128::from(elapsed) * u128::from(quota.refill());
        TokenBucket {
            capacity: u64::from(quota.capacity_u32()),
            unit: quota.unit(),
            refill: quota.refill(),
            deficit: deficit.saturating_sub(refilled),
            at,
        }
    }

    /// The largest deficit that leaves room for `need`.
    #[inline]
    fn room(&self, need: u64, slack: u64) -> u128 {
        u128::from(self.capacity + slack - need) * u128::from(self.unit)
    }
}

impl View for TokenBucket {
    #[inline]
    fn remaining(&self) -> u32 {
        div_floor(self.room(0, 0).saturating_sub(self.deficit), self.unit) as u32
    }

    #[inline]
    fn when(&self, need: u64, slack: u64) -> u128 {
        let excess = self.deficit.saturating_sub(self.room(need, slack));
        u128::from(self.at.as_micros()) + div_ceil(excess, self.refill)
    }

    #[inline]
    fn admits(&self, need: u64, slack: u64) -> bool {
        self.deficit <= self.room(need, slack)
    }

    #[inline]
    fn record(&mut self, cost: u64) {
        self.deficit += u128::from(cost) * u128::from(self.unit);
    }

    #[inline]
    fn refund(&mut self, cost: u64) {
        self.deficit = self.deficit.saturating_sub(u128::from(cost) * u128::from(self.unit));
    }

    #[inline]
    fn write(self, state: &mut State) {
        *state = match self.deficit {
            0 => State::New,
            deficit => State::TokenBucket { deficit, last: self.at },
        };
    }
}
