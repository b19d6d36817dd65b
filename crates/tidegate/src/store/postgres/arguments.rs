//! Arguments of the step functions for one operation under one quota.

use tidegate_core::{Algorithm, Op, Quota};

use crate::store::codec::{F64_EXACT_LIMIT, UnitDelta, encode_quota, micros};

/// The modes of the function that steps a log. It returns the part that the decision needs, or that part without taking
/// anything, or the whole log.
const LOG_PART: u64 = 0;
const LOG_PART_CHECK: u64 = 1;
const LOG_FULL: u64 = 2;

/// The shortcuts of the step function: it takes units in one statement when the row exists and has room. The last one is for
/// sliding windows of one bucket.
const TOKEN_BUCKET_SHORTCUT: i64 = 1;
const FIXED_WINDOW_SHORTCUT: i64 = 2;
const SLIDING_WINDOW_SHORTCUT: i64 = 3;

/// A quota and an operation, as arguments of a step function.
pub(super) struct StepArguments {
    pub(super) quota: Vec<u8>,
    /// The units to take. Below 0 for a refund.
    pub(super) units: i64,
    /// The most that may be used already for the units to fit. Below 0 when they never fit.
    pub(super) room: i64,
    /// Five numbers that depend on the algorithm, in the order in which `sql/next.sql` names them.
    pub(super) numbers: [i64; 5],
}

impl StepArguments {
    /// The arguments of the function for one operation.
    pub(super) fn from_op(quota: &Quota, op: Op) -> Self {
        let log_mode = match op {
            Op::Limit(_) => LOG_PART,
            Op::Check(_) => LOG_PART_CHECK,
            _ => LOG_FULL,
        };
        Self::new(quota, UnitDelta::from_op(op, quota), log_mode)
    }

    /// The arguments of the function for a joint decision.
    pub(super) fn from_cost(quota: &Quota, cost: u64) -> Self {
        Self::new(quota, UnitDelta::from_units(cost, quota, 0), LOG_FULL)
    }

    fn new(quota: &Quota, UnitDelta { units, is_refund, room }: UnitDelta, log_mode: u64) -> Self {
        let parts = quota.parts();
        let (period, start) = (micros(parts.period), micros(parts.start));
        let length = period / u64::from(parts.buckets);
        // Added to a time, it lets windows begin at multiples of their length.
        let shift = |length: u64| length - start % length;
        // The number of grants that replenish the largest deficit that one number holds.
        let grants = |units: u64| F64_EXACT_LIMIT as u64 / units + 1;
        // The largest number of sub-units that is compared.
        let max_sub_units = u128::from(quota.unit()) * u128::from(units + room.unwrap_or(0));
        // The largest count whose product with the length can be compared.
        let max_weighted = (1 << 62) / length;
        let shortcut_if =
            |fits: bool, shortcut: i64| if fits && !is_refund && room.is_some() { shortcut as u64 } else { 0 };
        let numbers = match parts.algorithm {
            Algorithm::TokenBucket => [
                quota.unit(),
                quota.refill(),
                grants(quota.refill()),
                0,
                shortcut_if(max_sub_units < F64_EXACT_LIMIT, TOKEN_BUCKET_SHORTCUT),
            ],
            Algorithm::FixedWindow => {
                let rate = parts.rate.into();
                [grants(rate), rate, period, shift(period), shortcut_if(true, FIXED_WINDOW_SHORTCUT)]
            }
            Algorithm::SlidingWindow => {
                let fits = parts.buckets == 1 && room <= Some(max_weighted);
                [length, shift(length), parts.buckets.into(), max_weighted, shortcut_if(fits, SLIDING_WINDOW_SHORTCUT)]
            }
            _ => [period, parts.rate.into(), log_mode, 0, 0],
        };
        let units = if is_refund { -to_signed(units) } else { to_signed(units) };
        StepArguments {
            quota: encode_quota(quota),
            units,
            room: room.map_or(-1, to_signed),
            numbers: numbers.map(to_signed),
        }
    }

    /// Undoes a shortcut on the state that it wrote: adds the units that it took. Units replenished before stay.
    pub(super) fn undo_shortcut(&self, state: &mut [i64]) {
        let [unit, .., shortcut] = self.numbers;
        let (taken, used) = match shortcut {
            TOKEN_BUCKET_SHORTCUT => (self.units * unit, state.first_mut()),
            SLIDING_WINDOW_SHORTCUT => (self.units, state.last_mut()),
            _ => (self.units, state.first_mut()),
        };
        if let Some(used) = used {
            *used -= taken;
        }
    }
}

/// Converts a number to the to_signed type of Postgres. All numbers are below 2^53.
pub(super) fn to_signed(number: u64) -> i64 {
    number as i64
}

/// Returns whether the step function should answer a check: it leaves out the part of a log that does not matter.
pub(super) fn is_sliding_log(quota: &Quota) -> bool {
    quota.algorithm() == Algorithm::SlidingLog
}
