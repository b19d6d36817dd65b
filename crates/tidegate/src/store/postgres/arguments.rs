//! What the function is told about one operation under one quota.

use tidegate_core::{Algorithm, Op, Quota};

use crate::store::stored::{NARROW, Taking, micros, quota_bytes};

/// How the step of a log answers: as little as the decision needs; the same, and it takes nothing; all of it.
const BRIEFLY: u64 = 0;
const LOOKING: u64 = 1;
const IN_FULL: u64 = 2;

/// A quota and an operation, as the function takes them.
pub(super) struct Arguments {
    pub(super) quota: Vec<u8>,
    /// Below 0 when they are given back.
    pub(super) units: i64,
    /// How much may be used already; below 0 when it is too much in any case.
    pub(super) room: i64,
    /// Five, of which each algorithm has its own, in the order in which `sql/next.sql` names them.
    pub(super) numbers: [i64; 5],
}

impl Arguments {
    pub(super) fn one(quota: &Quota, op: Op) -> Self {
        let how = match op {
            Op::Limit(_) => BRIEFLY,
            Op::Check(_) => LOOKING,
            _ => IN_FULL,
        };
        Self::new(quota, Taking::of(op, quota), how)
    }

    /// For the function that takes several.
    pub(super) fn among(quota: &Quota, cost: u64) -> Self {
        Self::new(quota, Taking::units(cost, quota, 0), IN_FULL)
    }

    fn new(quota: &Quota, Taking { units, gives, room }: Taking, how: u64) -> Self {
        let parts = quota.parts();
        let (period, start) = (micros(parts.period), micros(parts.start));
        // How much is compared, in sub-units.
        let most = u128::from(quota.unit()) * u128::from(units + room.unwrap_or(0));
        let is_plain = |fits: bool| u64::from(fits && room.is_some() && !gives);
        let numbers = match parts.algorithm {
            Algorithm::TokenBucket => [quota.unit(), quota.refill(), 1, 0, is_plain(most < NARROW)],
            Algorithm::FixedWindow => [1, parts.rate.into(), period, start, is_plain(true)],
            Algorithm::SlidingWindow => [period / u64::from(parts.buckets), start, parts.buckets.into(), 0, 0],
            _ => [period, parts.rate.into(), how, 0, 0],
        };
        let units = if gives { -signed(units) } else { signed(units) };
        Arguments { quota: quota_bytes(quota), units, room: room.map_or(-1, signed), numbers: numbers.map(signed) }
    }
}

/// A number as Postgres has them. All of ours are below 2^53.
pub(super) fn signed(number: u64) -> i64 {
    number as i64
}

/// Whether a look at it is better answered by the function, which leaves out what does not matter.
pub(super) fn is_log(quota: &Quota) -> bool {
    quota.algorithm() == Algorithm::SlidingLog
}
