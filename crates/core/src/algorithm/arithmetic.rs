//! Exact arithmetic in 128 bits that costs what 64 bits cost when the numbers are small, as they nearly always are.

use crate::Timestamp;

/// `a / b`, rounded down.
#[inline]
pub(super) fn div_floor(a: u128, b: u64) -> u128 {
    match u64::try_from(a) {
        Ok(a) => (a / b).into(),
        Err(_) => a / u128::from(b),
    }
}

/// `a / b`, rounded up.
#[inline]
pub(super) fn div_ceil(a: u128, b: u64) -> u128 {
    match u64::try_from(a) {
        // Most buckets refill one sub-unit a microsecond, and a division costs more than the rest of a step.
        Ok(a) if b == 1 => a.into(),
        Ok(a) => a.div_ceil(b).into(),
        Err(_) => a.div_ceil(b.into()),
    }
}

/// Where a time lies in windows of one length.
#[derive(Clone, Copy)]
pub(super) struct Position {
    /// How far into its window.
    pub(super) into: u64,
    /// How many windows later than the one `last` was in.
    pub(super) entered: u64,
}

impl Position {
    /// The position of `at`, which is not before `last`, in windows of `length` that begin at `start` plus whole
    /// lengths.
    #[inline]
    pub(super) fn new(at: Timestamp, last: Timestamp, length: u64, start: u64) -> Self {
        let into = match start {
            0 => at.as_micros() % length,
            // Counting from `start - length` keeps this in range for times before `start` too.
            start => (at.as_micros() % length + (length - start % length)) % length,
        };
        let elapsed = at.as_micros() - last.as_micros();
        let entered = if elapsed <= into { 0 } else { (elapsed - into).div_ceil(length) };
        Position { into, entered }
    }
}
