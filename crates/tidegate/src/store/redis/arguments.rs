//! Arguments of the scripts, for one operation under one quota.
//!
//! They hold all that depends neither on the stored value nor on the time, so that the script multiplies once at most:
//! the cost in the quota's own measure, and how much may be used for it to fit.

use tidegate_core::{Algorithm, Op, Quota, Timestamp};

use super::value::encode_doubles;
use crate::store::codec::{F64_EXACT_LIMIT, LIMB_BASE, UnitDelta, encode_quota, micros};

/// The modes of the script that steps a log: reply with the part that the decision needs; reply with that part and take
/// nothing; reply with all of the log.
const LOG_PART: u64 = 0;
const LOG_PART_CHECK: u64 = 1;
const LOG_FULL: u64 = 2;

/// A quota and an operation, as a script takes them: the quota's bytes, and numbers.
pub(super) struct StepArguments {
    pub(super) quota: Vec<u8>,
    pub(super) numbers: Vec<u8>,
}

impl StepArguments {
    /// The arguments of the script of the quota's algorithm. `min_ttl` is in microseconds.
    pub(super) fn from_op(quota: &Quota, op: Op, min_ttl: u64) -> Self {
        let log_mode = match op {
            Op::Limit(_) => LOG_PART,
            Op::Check(_) => LOG_PART_CHECK,
            _ => LOG_FULL,
        };
        Self::new(quota, UnitDelta::from_op(op, quota), log_mode, min_ttl)
    }

    /// The arguments of the script of joint decisions.
    pub(super) fn from_cost(quota: &Quota, cost: u64, min_ttl: u64) -> Self {
        Self::new(quota, UnitDelta::from_units(cost, quota, 0), LOG_FULL, min_ttl)
    }

    fn new(quota: &Quota, UnitDelta { units, is_refund, room }: UnitDelta, log_mode: u64, min_ttl: u64) -> Self {
        let parts = quota.parts();
        let (period, start) = (micros(parts.period), micros(parts.start));
        let rest = match parts.algorithm {
            Algorithm::TokenBucket => {
                let in_sub_units = |units| u128::from(units) * u128::from(quota.unit());
                let numbers = encode_bucket(in_sub_units(units), is_refund, room.map(in_sub_units), quota.refill());
                return StepArguments {
                    quota: encode_quota(quota),
                    numbers: [encode_doubles([min_ttl]), numbers].concat(),
                };
            }
            Algorithm::FixedWindow => [parts.rate.into(), period, start],
            Algorithm::SlidingWindow => [period / u64::from(parts.buckets), start, parts.buckets.into()],
            _ => [period, parts.rate.into(), log_mode],
        };
        let numbers =
            [encode_doubles([min_ttl]), encode_units(units, is_refund), encode_room(room), encode_doubles(rest)]
                .concat();
        StepArguments { quota: encode_quota(quota), numbers }
    }
}

/// Encodes the numbers of a token bucket: in one piece each where Lua's numbers are exact, in two limbs where they are
/// not.
fn encode_bucket(cost: u128, is_refund: bool, room: Option<u128>, refill: u64) -> Vec<u8> {
    let low = |number: u128| (number % LIMB_BASE) as u64;
    let high = |number: u128| (number / LIMB_BASE) as u64;
    // Together they are the most that is stored.
    if cost + room.unwrap_or(0) < F64_EXACT_LIMIT {
        return [
            encode_units(cost as u64, is_refund),
            encode_room(room.map(|room| room as u64)),
            encode_doubles([refill]),
        ]
        .concat();
    }
    let low_limbs = [encode_units(low(cost), is_refund), encode_doubles([room.map_or(0, low), refill])].concat();
    [low_limbs, encode_units(high(cost), is_refund), encode_room(room.map(high))].concat()
}

/// Encodes a number of units, below 0 when they are refunded.
fn encode_units(number: u64, is_refund: bool) -> Vec<u8> {
    let number = number as f64;
    (if is_refund { -number } else { number }).to_le_bytes().into()
}

/// Encodes how much may be used for a cost to fit; none is -1, because no use is that low.
fn encode_room(room: Option<u64>) -> Vec<u8> {
    room.map_or(-1.0, |room| room as f64).to_le_bytes().into()
}

/// Encodes the time as a script takes it: empty for the server's own.
pub(super) fn encode_time(at: Option<Timestamp>) -> Vec<u8> {
    at.map_or_else(Vec::new, |at| at.as_micros().to_string().into_bytes())
}
