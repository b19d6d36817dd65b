//! Starts full, refills continuously.
//!
//! One unit is `unit` sub-units and a microsecond brings `refill` of them, both whole numbers without a common
//! divisor; so a bucket is kept exactly, and asking often never loses a fraction.

use super::arithmetic::Num;
use super::{Op, State, View};
use crate::{Quota, Timestamp};

/// Below this, the sum of two counts of sub-units fits in 64 bits.
const NARROW: u128 = 1 << 63;

/// A bucket at one time, in numbers that are wide enough for it.
pub(super) struct TokenBucket<N> {
    capacity: u64,
    unit: N,
    refill: N,
    deficit: N,
    at: Timestamp,
}

impl TokenBucket<u64> {
    /// The deficit in 64 bits, when those are enough for the whole step. Only a reservation takes more than the
    /// capacity.
    #[inline]
    pub(super) fn narrow(quota: &Quota, deficit: u128, op: Op) -> Option<u64> {
        let whole = u128::from(quota.capacity_u32()) * u128::from(quota.unit());
        let fits = whole < NARROW && deficit < NARROW && !matches!(op, Op::Reserve(_));
        fits.then_some(deficit as u64)
    }
}

impl<N: Num> TokenBucket<N> {
    /// The bucket at `at`, whose deficit was `deficit` at `last`.
    #[inline]
    pub(super) fn new(quota: &Quota, deficit: N, last: Timestamp, at: Timestamp) -> Self {
        let refill = N::from(quota.refill());
        // Saturating, because a long idle time brings more than any bucket holds.
        let refilled = N::from(at.as_micros() - last.as_micros()).saturating_mul(refill);
        TokenBucket {
            capacity: u64::from(quota.capacity_u32()),
            unit: N::from(quota.unit()),
            refill,
            deficit: deficit.saturating_sub(refilled),
            at,
        }
    }

    /// The largest deficit that leaves room for `need`.
    #[inline]
    fn room(&self, need: u64, slack: u64) -> N {
        N::from(self.capacity + slack - need) * self.unit
    }
}

impl<N: Num> View for TokenBucket<N> {
    #[inline]
    fn remaining(&self) -> u32 {
        (self.room(0, 0).saturating_sub(self.deficit) / self.unit).saturate() as u32
    }

    #[inline]
    fn wait(&self, need: u64, slack: u64) -> u64 {
        self.deficit.saturating_sub(self.room(need, slack)).div_ceil(self.refill).saturate()
    }

    #[inline]
    fn admits(&self, need: u64, slack: u64) -> bool {
        self.deficit <= self.room(need, slack)
    }

    #[inline]
    fn record(&mut self, cost: u64) {
        self.deficit = self.deficit + N::from(cost) * self.unit;
    }

    #[inline]
    fn refund(&mut self, cost: u64) {
        self.deficit = self.deficit.saturating_sub(N::from(cost).saturating_mul(self.unit));
    }

    #[inline]
    fn write(self, state: &mut State) {
        *state = if self.deficit == N::ZERO {
            State::New
        } else {
            State::TokenBucket { deficit: self.deficit.into(), last: self.at }
        };
    }
}
