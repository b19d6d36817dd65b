//! Quotas: an algorithm with its parameters, such as rate, period and capacity.

mod algorithm;
mod divide;
mod error;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::Op;
use crate::divisor::Divisor;
use crate::hash::mix;
pub use algorithm::Algorithm;
pub use error::QuotaError;

/// The largest rate, capacity or debt.
pub const MAX_COUNT: u64 = u32::MAX as u64;
/// The shortest period.
pub const MIN_PERIOD: Duration = Duration::from_millis(1);
/// The longest period: 366 days.
pub const MAX_PERIOD: Duration = Duration::from_secs(366 * 86_400);
/// The largest number of parts of a quota. Each part is a quota in memory and a key in the store.
pub const MAX_SHARDS: u32 = 1_024;

const MAX_BUCKETS: u64 = 64;

/// An algorithm with its numbers. They are checked when it is built, so an invalid quota cannot exist.
///
/// ```
/// use tidegate_core::{Quota, minutes, seconds};
///
/// let login = Quota::fixed_window(5, minutes(1))?;
/// let send = Quota::token_bucket(10, seconds(1))?.capacity(20)?;
/// assert_eq!(send.parts().capacity, 20);
///
/// let error = Quota::sliding_log(0, seconds(1)).unwrap_err();
/// assert_eq!(error.to_string(), "rate 0 is not accepted: expected a whole number from 1 to 4294967295");
/// # Ok::<(), tidegate_core::QuotaError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Quota {
    period: u64,
    start: u64,
    /// The sub-units in one unit of a token bucket.
    unit: Divisor,
    /// The sub-units that a microsecond refills.
    refill: Divisor,
    rate: u32,
    capacity: u32,
    max_debt: Option<u32>,
    buckets: u8,
    algorithm: Algorithm,
    /// Whether this is a token bucket whose sub-units fit in 64-bit arithmetic.
    narrow: bool,
    /// A hash of the fields above.
    tag: u64,
}

impl Quota {
    /// Creates a token bucket: `rate` per `period`, refilled continuously, with bursts up to the capacity.
    /// [`Quota::capacity`] defaults to `rate`.
    pub fn token_bucket(rate: u64, period: Duration) -> Result<Self, QuotaError> {
        Self::new(Algorithm::TokenBucket, rate, period)
    }

    /// Creates a fixed window: `rate` in every window of `period`. All keys have the same windows, which begin at the
    /// epoch plus [`Quota::start`]. With a [`Quota::capacity`] above `rate`, unused units roll over into the next
    /// windows.
    pub fn fixed_window(rate: u64, period: Duration) -> Result<Self, QuotaError> {
        Self::new(Algorithm::FixedWindow, rate, period)
    }

    /// Creates a sliding window: an estimate of `rate` in any trailing `period`, at most 2 * rate - 1 in the worst one.
    /// More [`Quota::buckets`] make it finer.
    pub fn sliding_window(rate: u64, period: Duration) -> Result<Self, QuotaError> {
        Self::new(Algorithm::SlidingWindow, rate, period)
    }

    /// Creates a sliding log: exactly `rate` in any trailing `period`. It keeps every request, up to `rate` of them for
    /// a key, and reserved ones beyond that, up to [`Quota::max_debt`].
    pub fn sliding_log(rate: u64, period: Duration) -> Result<Self, QuotaError> {
        Self::new(Algorithm::SlidingLog, rate, period)
    }

    /// Creates a concurrency quota: at most `capacity` leases at once. A lease expires `ttl` after it was admitted or
    /// last renewed.
    ///
    /// In [`Quota::parts`], the rate equals the capacity, and the period is `ttl`.
    pub fn concurrency(capacity: u64, ttl: Duration) -> Result<Self, QuotaError> {
        Ok(Self::from_checked(
            Algorithm::Concurrency,
            checked_count("capacity", capacity)?,
            checked_period("ttl", ttl)?,
        ))
    }

    /// Creates a quota of any algorithm, with defaults for the other numbers. For `concurrency`, `rate` is the capacity
    /// and `period` is the time to live of a lease.
    pub fn new(algorithm: Algorithm, rate: u64, period: Duration) -> Result<Self, QuotaError> {
        if algorithm == Algorithm::Concurrency {
            return Self::concurrency(rate, period);
        }
        Ok(Self::from_checked(algorithm, checked_count("rate", rate)?, checked_period("period", period)?))
    }

    fn from_checked(algorithm: Algorithm, rate: u32, period: u64) -> Self {
        let quota = Quota {
            algorithm,
            rate,
            period,
            capacity: rate,
            start: 0,
            buckets: 1,
            max_debt: None,
            unit: Divisor::new(1),
            refill: Divisor::new(1),
            narrow: false,
            tag: 0,
        };
        quota.with_derived_fields()
    }

    /// Sets the capacity: the most that can be taken at once. For `token_bucket`, `fixed_window` and `concurrency`.
    pub fn capacity(self, capacity: u64) -> Result<Self, QuotaError> {
        self.require_algorithm(
            "capacity",
            capacity,
            &[Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::Concurrency],
        )?;
        let capacity = checked_count("capacity", capacity)?;
        let rate = if self.algorithm == Algorithm::Concurrency { capacity } else { self.rate };
        Ok(Quota { rate, capacity, ..self }.with_derived_fields())
    }

    /// Moves the windows: they begin at `start` plus whole periods. For `fixed_window` and `sliding_window`.
    pub fn start(self, start: Duration) -> Result<Self, QuotaError> {
        let start = checked_micros("start", start)?;
        self.require_algorithm("start", span_text(start), &[Algorithm::FixedWindow, Algorithm::SlidingWindow])?;
        Ok(Quota { start: start % self.period, ..self }.with_derived_fields())
    }

    /// Cuts the period into `buckets`, which makes the estimate finer. For `sliding_window`.
    pub fn buckets(self, buckets: u64) -> Result<Self, QuotaError> {
        self.require_algorithm("buckets", buckets, &[Algorithm::SlidingWindow])?;
        if !(1..=MAX_BUCKETS).contains(&buckets) {
            return Err(QuotaError::new("buckets", buckets, "a whole number from 1 to 64"));
        }
        if !self.period.is_multiple_of(buckets) {
            let expected = format!("a number that divides the period of {} microseconds", self.period);
            return Err(QuotaError::new("buckets", buckets, expected));
        }
        Ok(Quota { buckets: buckets as u8, ..self }.with_derived_fields())
    }

    /// Bounds the units that reservations may take beyond the capacity. Defaults to [`MAX_COUNT`].
    ///
    /// For every algorithm that has reservations: all except `concurrency`.
    pub fn max_debt(self, max_debt: u64) -> Result<Self, QuotaError> {
        self.require_algorithm("max_debt", max_debt, &Algorithm::RATES)?;
        match u32::try_from(max_debt) {
            Ok(max_debt) => Ok(Quota { max_debt: Some(max_debt), ..self }.with_derived_fields()),
            Err(_) => Err(QuotaError::new("max_debt", max_debt, "a whole number from 0 to 4294967295")),
        }
    }

    /// Returns the algorithm.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns whether the algorithm has this operation. `limit`, `reserve` and `refund` are for units; `admit`,
    /// `renew` and `release` are for the leases of `concurrency`. Every algorithm has `check` and `reset`.
    ///
    /// Code that accepts requests from outside must reject unsupported ones.
    #[inline]
    pub const fn supports(&self, op: Op) -> bool {
        let has_leases = matches!(self.algorithm, Algorithm::Concurrency);
        match op {
            Op::Limit(_) | Op::Reserve(_) | Op::Refund(_) => !has_leases,
            Op::Admit(_) | Op::Renew(_) | Op::Release(_) => has_leases,
            Op::Check(_) | Op::Reset => true,
        }
    }

    /// Returns the numbers that the quota was built from.
    #[inline]
    pub const fn parts(&self) -> QuotaParts {
        QuotaParts {
            algorithm: self.algorithm,
            rate: self.rate,
            period: Duration::from_micros(self.period),
            capacity: self.capacity,
            start: Duration::from_micros(self.start),
            buckets: self.buckets,
            max_debt: self.max_debt,
        }
    }

    /// Returns the time in which an empty quota fills. `None` when that is not a whole number of microseconds, and for
    /// `concurrency`, where it depends on the holders of leases.
    pub fn window(&self) -> Option<Duration> {
        let (rate, capacity, period) = (u128::from(self.rate), u128::from(self.capacity), u128::from(self.period));
        let micros = match self.algorithm {
            Algorithm::TokenBucket if (capacity * period).is_multiple_of(rate) => capacity * period / rate,
            Algorithm::TokenBucket => return None,
            Algorithm::FixedWindow => capacity.div_ceil(rate) * period,
            Algorithm::Concurrency => return None,
            _ => period,
        };
        u64::try_from(micros).ok().map(Duration::from_micros)
    }

    /// Returns a stable hash of [`Quota::parts`], computed once. A stored state can carry it to record its quota.
    /// Different quotas nearly always have different tags.
    #[inline]
    pub const fn tag(&self) -> u64 {
        self.tag
    }

    /// Computes the fields that follow from the numbers.
    fn with_derived_fields(mut self) -> Self {
        let divisor = gcd(self.rate.into(), self.period);
        self.unit = Divisor::new(self.period / divisor);
        self.refill = Divisor::new(u64::from(self.rate) / divisor);
        let whole = u128::from(self.capacity) * u128::from(self.unit());
        self.narrow = self.algorithm == Algorithm::TokenBucket && whole < 1 << 63;
        let numbers = [self.period, self.start, self.rate.into(), self.capacity.into(), self.packed_settings()];
        self.tag = numbers.iter().fold(0, |tag, number| mix(tag ^ number));
        self
    }

    /// Packs the settings that have no number of their own in the tag.
    fn packed_settings(&self) -> u64 {
        let debt = self.max_debt.map_or(1 << 32, u64::from);
        debt << 16 | u64::from(self.buckets) << 8 | self.algorithm as u64
    }

    pub(crate) const fn capacity_u32(&self) -> u32 {
        self.capacity
    }

    pub(crate) const fn rate_u64(&self) -> u64 {
        self.rate as u64
    }

    /// Returns the length of one bucket of a sliding window.
    pub(crate) const fn bucket_micros(&self) -> u64 {
        self.period / self.buckets as u64
    }

    pub(crate) const fn period_micros(&self) -> u64 {
        self.period
    }

    pub(crate) const fn start_micros(&self) -> u64 {
        self.start
    }

    /// Returns the sub-units in one unit of a token bucket, for stores that do the arithmetic themselves.
    pub const fn unit(&self) -> u64 {
        self.unit.get()
    }

    pub(crate) const fn unit_divisor(&self) -> Divisor {
        self.unit
    }

    pub(crate) const fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// Returns the sub-units that a microsecond refills in a token bucket.
    pub const fn refill(&self) -> u64 {
        self.refill.get()
    }

    pub(crate) const fn refill_divisor(&self) -> Divisor {
        self.refill
    }

    /// Returns the largest number of units that a reservation may take beyond the capacity.
    pub fn slack(&self) -> u64 {
        self.max_debt.map_or(MAX_COUNT, u64::from)
    }

    /// Returns an error unless the algorithm is one of those that use the field.
    fn require_algorithm(
        &self,
        field: &'static str,
        value: impl ToString,
        users: &[Algorithm],
    ) -> Result<(), QuotaError> {
        if users.contains(&self.algorithm) {
            return Ok(());
        }
        let users = users.iter().map(|algorithm| algorithm.as_str()).collect::<Vec<_>>().join(" or ");
        let expected = format!("no {field}, which {} does not use ({users} does)", self.algorithm);
        Err(QuotaError::new(field, value, expected))
    }
}

impl PartialEq for Quota {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // The tag decides nearly always. Otherwise its first four numbers do: the tag mixes different numbers to
        // different results. So with these and the tag equal, the rest is equal.
        self.tag == other.tag
            && self.rate == other.rate
            && self.period == other.period
            && self.capacity == other.capacity
            && self.start == other.start
    }
}

impl Eq for Quota {}

impl Hash for Quota {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tag.hash(state);
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().fmt(f)
    }
}

/// The numbers that a [`Quota`] was built from, for storing and displaying it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaParts {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The units that a period adds.
    pub rate: u32,
    /// The period.
    pub period: Duration,
    /// The most that can be taken at once.
    pub capacity: u32,
    /// The offset of the windows, less than a period.
    pub start: Duration,
    /// The number of buckets in the period of a sliding window.
    pub buckets: u8,
    /// The bound on debt, when one was set.
    pub max_debt: Option<u32>,
}

fn checked_count(field: &'static str, value: u64) -> Result<u32, QuotaError> {
    match u32::try_from(value) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(QuotaError::new(field, value, "a whole number from 1 to 4294967295")),
    }
}

fn checked_micros(field: &'static str, span: Duration) -> Result<u64, QuotaError> {
    let micros = u64::try_from(span.as_micros()).ok().filter(|micros| Duration::from_micros(*micros) == span);
    micros.ok_or_else(|| QuotaError::new(field, format!("{span:?}"), "a whole number of microseconds"))
}

fn checked_period(field: &'static str, span: Duration) -> Result<u64, QuotaError> {
    let period = checked_micros(field, span)?;
    if period < MIN_PERIOD.as_micros() as u64 || period > MAX_PERIOD.as_micros() as u64 {
        return Err(QuotaError::new(field, span_text(period), "a time from 1ms to 366d"));
    }
    Ok(period)
}

fn span_text(micros: u64) -> String {
    format!("{:?}", Duration::from_micros(micros))
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{days, millis, seconds};

    #[test]
    fn invalid_quotas_are_rejected() {
        let bucket = || Quota::token_bucket(10, seconds(1)).unwrap();
        let window = || Quota::sliding_window(10, seconds(1)).unwrap();
        let log = || Quota::sliding_log(10, seconds(1)).unwrap();
        let leases = || Quota::concurrency(10, seconds(1)).unwrap();
        let cases = [
            (
                Quota::token_bucket(0, seconds(1)),
                "rate 0 is not accepted: expected a whole number from 1 to 4294967295",
            ),
            (Quota::token_bucket(1 << 32, seconds(1)), "rate 4294967296 is not"),
            (Quota::fixed_window(1, Duration::ZERO), "period 0ns is not accepted: expected a time from 1ms to 366d"),
            (Quota::fixed_window(1, Duration::from_micros(999)), "period 999µs is not"),
            (Quota::fixed_window(1, days(367)), "period 31708800s is not"),
            (Quota::fixed_window(1, Duration::from_nanos(1_000_500)), "expected a whole number of microseconds"),
            (Quota::fixed_window(1, Duration::MAX), "expected a whole number of microseconds"),
            (bucket().capacity(0), "capacity 0 is not"),
            (
                log().capacity(20),
                "expected no capacity, which sliding_log does not use (token_bucket or fixed_window or concurrency does)",
            ),
            (window().capacity(20), "which sliding_window does not use"),
            (bucket().start(seconds(1)), "start 1s is not accepted: expected no start"),
            (bucket().buckets(2), "buckets 2 is not accepted: expected no buckets"),
            (window().buckets(0), "expected a whole number from 1 to 64"),
            (window().buckets(65), "expected a whole number from 1 to 64"),
            (window().buckets(3), "expected a number that divides the period of 1000000 microseconds"),
            (bucket().max_debt(1 << 32), "max_debt 4294967296 is not"),
            (Quota::concurrency(0, seconds(1)), "capacity 0 is not accepted: expected a whole number from 1 to"),
            (Quota::concurrency(1, days(367)), "ttl 31708800s is not accepted: expected a time from 1ms to 366d"),
            (leases().start(seconds(1)), "expected no start, which concurrency does not use"),
            (leases().buckets(2), "expected no buckets, which concurrency does not use"),
            (leases().max_debt(2), "expected no max_debt, which concurrency does not use"),
        ];
        for (result, message) in cases {
            let error = result.expect_err(message).to_string();
            assert!(error.contains(message), "{error:?} should say {message:?}");
        }
    }

    #[test]
    fn smallest_and_largest_quotas_are_accepted() {
        for algorithm in Algorithm::ALL {
            for rate in [1, MAX_COUNT] {
                for period in [MIN_PERIOD, MAX_PERIOD] {
                    Quota::new(algorithm, rate, period).unwrap();
                }
            }
        }
        Quota::token_bucket(1, millis(1)).unwrap().capacity(MAX_COUNT).unwrap();
    }

    #[test]
    fn window_is_the_time_to_fill() {
        let micros = Duration::from_micros;
        let window = |quota: Result<Quota, _>| quota.unwrap().window();
        assert_eq!(window(Quota::token_bucket(100, seconds(60))), Some(seconds(60)));
        assert_eq!(
            window(Quota::token_bucket(10, seconds(1)).and_then(|quota| quota.capacity(25))),
            Some(millis(2_500))
        );
        assert_eq!(window(Quota::token_bucket(3, seconds(1)).and_then(|quota| quota.capacity(1))), None);
        assert_eq!(window(Quota::token_bucket(3, seconds(1)).and_then(|quota| quota.capacity(6))), Some(seconds(2)));
        assert_eq!(
            window(Quota::fixed_window(5, seconds(60)).and_then(|quota| quota.capacity(11))),
            Some(seconds(180))
        );
        assert_eq!(window(Quota::sliding_window(5, micros(1_500_001))), Some(micros(1_500_001)));
        assert_eq!(window(Quota::sliding_log(5, days(1))), Some(days(1)));
        assert_eq!(window(Quota::concurrency(5, days(1))), None);
        // Longer than microseconds of 64 bits can say.
        assert_eq!(window(Quota::token_bucket(1, MAX_PERIOD).and_then(|quota| quota.capacity(MAX_COUNT))), None);
    }
}
