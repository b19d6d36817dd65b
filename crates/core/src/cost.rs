//! The cost of a request.

use std::fmt;
use std::num::NonZeroU64;

/// The units one request takes: a whole number, at least 1. A request for nothing is a check, not cost 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(NonZeroU64);

impl Cost {
    /// The cost of an ordinary request.
    pub const ONE: Cost = Cost(NonZeroU64::MIN);

    /// A cost of `units`; 0 is refused.
    #[inline]
    pub const fn new(units: u64) -> Result<Self, InvalidCost> {
        match NonZeroU64::new(units) {
            Some(units) => Ok(Cost(units)),
            None => Err(InvalidCost),
        }
    }

    /// The cost in units.
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

/// A cost of 0 was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cost 0 is not a cost: expected a whole number, at least 1 (to ask without taking, use `check`)")]
pub struct InvalidCost;
