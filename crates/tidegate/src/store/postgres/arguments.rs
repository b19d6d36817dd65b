//! What the function is told about one operation under one quota.

use tidegate_core::{Algorithm, Op, Quota};

use crate::store::stored::{NARROW, Taking, micros, quota_bytes};

/// How the step of a log answers: as little as the decision needs; the same, and it takes nothing; all of it.
const BRIEFLY: u64 = 0;
const LOOKING: u64 = 1;
const IN_FULL: u64 = 2;

/// What the step takes in one statement when the row is there and has room: one of a token bucket, a fixed window, or a
/// sliding window of one bucket.
const BUCKET: i64 = 1;
const FIXED: i64 = 2;
const SLIDING: i64 = 3;

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
        let length = period / u64::from(parts.buckets);
        // Added to a time, windows begin at multiples of their length.
        let shift = |length: u64| length - start % length;
        // The most that a state of one number says, and how often a grant is needed until that has come back.
        let grants = |each: u64| NARROW as u64 / each + 1;
        // How much is compared, in sub-units.
        let most = u128::from(quota.unit()) * u128::from(units + room.unwrap_or(0));
        // How much times a length can still be compared.
        let weighed = (1 << 62) / length;
        let shortcut = |how: i64, fits: bool| if fits && !gives && room.is_some() { how as u64 } else { 0 };
        let numbers = match parts.algorithm {
            Algorithm::TokenBucket => {
                [quota.unit(), quota.refill(), grants(quota.refill()), 0, shortcut(BUCKET, most < NARROW)]
            }
            Algorithm::FixedWindow => {
                let rate = parts.rate.into();
                [grants(rate), rate, period, shift(period), shortcut(FIXED, true)]
            }
            Algorithm::SlidingWindow => {
                let fits = parts.buckets == 1 && room <= Some(weighed);
                [length, shift(length), parts.buckets.into(), weighed, shortcut(SLIDING, fits)]
            }
            _ => [period, parts.rate.into(), how, 0, 0],
        };
        let units = if gives { -signed(units) } else { signed(units) };
        Arguments { quota: quota_bytes(quota), units, room: room.map_or(-1, signed), numbers: numbers.map(signed) }
    }

    /// Makes a state that was taken from in one statement what it was before, with what had come back until then.
    pub(super) fn give_back(&self, state: &mut [i64]) {
        let [unit, .., how] = self.numbers;
        let (taken, from) = match how {
            BUCKET => (self.units * unit, state.first_mut()),
            SLIDING => (self.units, state.last_mut()),
            _ => (self.units, state.first_mut()),
        };
        if let Some(from) = from {
            *from -= taken;
        }
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
