//! Exact arithmetic: in 64 bits where every product fits, otherwise in 128 bits.

use std::ops::{Add, Mul};

use super::StepTime;
use crate::divisor::Divisor;

/// An unsigned integer of either width.
pub(super) trait UnsignedInt:
    Copy + Ord + From<u64> + Into<u128> + Add<Output = Self> + Mul<Output = Self>
{
    fn saturating_sub(self, other: Self) -> Self;
    fn saturating_mul(self, other: Self) -> Self;
    fn div_floor(self, divisor: Divisor) -> Self;
    fn div_ceil(self, divisor: Divisor) -> Self;
    /// Returns the value as 64 bits, or all ones when it does not fit.
    fn saturate(self) -> u64;
}

impl UnsignedInt for u64 {
    #[inline]
    fn saturating_sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }

    #[inline]
    fn saturating_mul(self, other: Self) -> Self {
        self.saturating_mul(other)
    }

    #[inline]
    fn div_floor(self, divisor: Divisor) -> Self {
        divisor.divide(self).0
    }

    #[inline]
    fn div_ceil(self, divisor: Divisor) -> Self {
        let (quotient, rest) = divisor.divide(self);
        quotient + u64::from(rest > 0)
    }

    #[inline]
    fn saturate(self) -> u64 {
        self
    }
}

impl UnsignedInt for u128 {
    fn saturating_sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }

    fn saturating_mul(self, other: Self) -> Self {
        self.saturating_mul(other)
    }

    fn div_floor(self, divisor: Divisor) -> Self {
        self / u128::from(divisor.get())
    }

    fn div_ceil(self, divisor: Divisor) -> Self {
        self.div_ceil(divisor.get().into())
    }

    fn saturate(self) -> u64 {
        u64::try_from(self).unwrap_or(u64::MAX)
    }
}

/// Returns `a / b`, rounded down, without a 128-bit division where 64 bits are enough.
#[inline]
pub(super) fn div_floor(a: u128, b: u64) -> u128 {
    match u64::try_from(a) {
        Ok(a) => (a / b).into(),
        Err(_) => a / u128::from(b),
    }
}

/// The position of a time in windows of one length.
#[derive(Clone, Copy)]
pub(super) struct WindowPosition {
    /// Time since its window began.
    pub(super) offset: u64,
    /// How many windows began since the state was written.
    pub(super) windows_passed: u64,
}

impl WindowPosition {
    /// Returns the position of a time in windows of `length` that begin at `start` plus whole lengths.
    #[inline]
    pub(super) fn new(time: StepTime, length: u64, start: u64) -> Self {
        let at = time.at.as_micros();
        let offset = match start {
            0 => at % length,
            // Counting from `start - length` also keeps times before `start` in range.
            start => (at % length + (length - start % length)) % length,
        };
        let elapsed = at - time.last.as_micros();
        let windows_passed = if elapsed <= offset { 0 } else { (elapsed - offset).div_ceil(length) };
        WindowPosition { offset, windows_passed }
    }
}
