//! The token bucket: starts full, refills continuously.
//!
//! One unit is `unit` sub-units, and a microsecond refills `refill` of them. Both are whole numbers without a common
//! divisor, so the state is exact: frequent requests never lose a fraction.

use super::arithmetic::UnsignedInt;
use super::{KeyView, NarrowBucket, Op, State, StepTime};
use crate::divisor::Divisor;
use crate::{Quota, Timestamp};

/// Below this, the sum of two counts of sub-units fits in 64 bits.
const NARROW_BOUND: u64 = 1 << 63;

/// The token bucket of one key at one time, in integers that are wide enough for its numbers.
pub(super) struct TokenBucket<N> {
    capacity: u64,
    unit: Divisor,
    refill: Divisor,
    deficit: N,
    time: StepTime,
}

impl TokenBucket<u64> {
    /// Returns whether 64 bits are enough for the whole step. Only a reservation takes more than the capacity.
    #[inline]
    pub(super) fn is_narrow(quota: &Quota, deficit: u64, op: Op) -> bool {
        quota.is_narrow() && deficit < NARROW_BOUND && !matches!(op, Op::Reserve(_))
    }

    #[inline]
    pub(super) fn narrow(&self) -> NarrowBucket {
        NarrowBucket { deficit: self.deficit, last: self.time.at }
    }
}

/// Returns the state of a bucket with this deficit.
pub(super) fn bucket_state(deficit: u128, last: Timestamp) -> State {
    match deficit {
        0 => State::New,
        deficit => State::TokenBucket { deficit, last },
    }
}

impl<N: UnsignedInt> TokenBucket<N> {
    /// Creates the bucket of a key that was written with this deficit.
    #[inline]
    pub(super) fn new(quota: &Quota, deficit: N, time: StepTime) -> Self {
        // Saturating: a long idle time refills more than any bucket holds.
        let refilled = N::from(time.at.as_micros() - time.last.as_micros()).saturating_mul(quota.refill().into());
        TokenBucket {
            capacity: u64::from(quota.capacity_u32()),
            unit: quota.unit_divisor(),
            refill: quota.refill_divisor(),
            deficit: deficit.saturating_sub(refilled),
            time,
        }
    }

    /// Returns the largest deficit that leaves room for `need`.
    #[inline]
    fn max_deficit(&self, need: u64, slack: u64) -> N {
        N::from(self.capacity + slack - need) * N::from(self.unit.get())
    }
}

impl<N: UnsignedInt> KeyView for TokenBucket<N> {
    #[inline]
    fn time(&self) -> StepTime {
        self.time
    }

    #[inline]
    fn remaining(&self) -> u32 {
        self.max_deficit(0, 0).saturating_sub(self.deficit).div_floor(self.unit).saturate() as u32
    }

    #[inline]
    fn wait(&self, need: u64, slack: u64) -> u64 {
        self.deficit.saturating_sub(self.max_deficit(need, slack)).div_ceil(self.refill).saturate()
    }

    #[inline]
    fn admits(&self, need: u64, slack: u64) -> bool {
        self.deficit <= self.max_deficit(need, slack)
    }

    #[inline]
    fn record(&mut self, cost: u64) {
        self.deficit = self.deficit + N::from(cost) * N::from(self.unit.get());
    }

    #[inline]
    fn refund(&mut self, cost: u64) {
        self.deficit = self.deficit.saturating_sub(N::from(cost).saturating_mul(self.unit.get().into()));
    }

    #[inline]
    fn write(self, state: &mut State) {
        *state = bucket_state(self.deficit.into(), self.time.at);
    }
}
