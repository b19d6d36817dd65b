//! What a script is told about one operation under one quota.
//!
//! Everything is worked out here that does not depend on what is stored or on the time, so that the script multiplies
//! once at most: what a cost is in the quota's own measure, and how much may be used for it to fit.

use tidegate_core::{Algorithm, Op, Quota};

use super::codec::doubles;
use crate::store::stored::{LIMB, NARROW, Taking, micros, quota_bytes};

/// How a script that steps a log answers: as little as the decision needs; the same, and it takes nothing; all of it.
const BRIEFLY: u64 = 0;
const LOOKING: u64 = 1;
const IN_FULL: u64 = 2;

/// A quota and an operation, as a script takes them: the quota's bytes, and numbers.
pub(super) struct Arguments {
    pub(super) quota: Vec<u8>,
    pub(super) numbers: Vec<u8>,
}

impl Arguments {
    /// For the script of the quota's algorithm. `min_ttl` is in microseconds.
    pub(super) fn one(quota: &Quota, op: Op, min_ttl: u64) -> Self {
        let how = match op {
            Op::Limit(_) => BRIEFLY,
            Op::Check(_) => LOOKING,
            _ => IN_FULL,
        };
        Self::new(quota, Taking::of(op, quota), how, min_ttl)
    }

    /// For the script that takes several.
    pub(super) fn among(quota: &Quota, cost: u64, min_ttl: u64) -> Self {
        Self::new(quota, Taking::units(cost, quota, 0), IN_FULL, min_ttl)
    }

    fn new(quota: &Quota, Taking { units, gives, room }: Taking, how: u64, min_ttl: u64) -> Self {
        let parts = quota.parts();
        let (period, start) = (micros(parts.period), micros(parts.start));
        let rest = match parts.algorithm {
            Algorithm::TokenBucket => {
                let in_sub_units = |units| u128::from(units) * u128::from(quota.unit());
                let numbers = bucket(in_sub_units(units), gives, room.map(in_sub_units), quota.refill());
                return Arguments { quota: quota_bytes(quota), numbers: [doubles([min_ttl]), numbers].concat() };
            }
            Algorithm::FixedWindow => [parts.rate.into(), period, start],
            Algorithm::SlidingWindow => [period / u64::from(parts.buckets), start, parts.buckets.into()],
            _ => [period, parts.rate.into(), how],
        };
        let numbers = [doubles([min_ttl]), signed(units, gives), or_never(room), doubles(rest)].concat();
        Arguments { quota: quota_bytes(quota), numbers }
    }
}

/// The numbers of a token bucket: in one piece each where Lua's numbers are exact, in two limbs where they are not.
fn bucket(cost: u128, gives: bool, room: Option<u128>, refill: u64) -> Vec<u8> {
    let low = |number: u128| (number % LIMB) as u64;
    let high = |number: u128| (number / LIMB) as u64;
    // Together they are the most that is stored.
    if cost + room.unwrap_or(0) < NARROW {
        return [signed(cost as u64, gives), or_never(room.map(|room| room as u64)), doubles([refill])].concat();
    }
    let low_limbs = [signed(low(cost), gives), doubles([room.map_or(0, low), refill])].concat();
    [low_limbs, signed(high(cost), gives), or_never(room.map(high))].concat()
}

/// A number, below 0 when it is given back.
fn signed(number: u64, gives: bool) -> Vec<u8> {
    let number = number as f64;
    (if gives { -number } else { number }).to_le_bytes().into()
}

/// A number that something is compared with, or one that nothing is at most.
fn or_never(number: Option<u64>) -> Vec<u8> {
    number.map_or(-1.0, |number| number as f64).to_le_bytes().into()
}
