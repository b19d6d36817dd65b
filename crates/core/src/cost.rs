//! The cost of a request.

use std::fmt;
use std::num::NonZeroU64;

/// The units that one request takes: a whole number, at least 1. To ask without taking, use a check, not a cost of 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(NonZeroU64);

impl Cost {
    /// The cost of an ordinary request.
    pub const ONE: Cost = Cost(NonZeroU64::MIN);

    /// Creates a cost of `units`. Returns an error for 0.
    #[inline]
    pub const fn new(units: u64) -> Result<Self, InvalidCost> {
        match NonZeroU64::new(units) {
            Some(units) => Ok(Cost(units)),
            None => Err(InvalidCost),
        }
    }

    /// Returns the cost in units.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl TryFrom<u64> for Cost {
    type Error = InvalidCost;

    fn try_from(units: u64) -> Result<Self, InvalidCost> {
        Cost::new(units)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The error of a cost of 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cost 0 is not a cost: expected a whole number, at least 1 (to ask without taking, use `check`)")]
pub struct InvalidCost;
