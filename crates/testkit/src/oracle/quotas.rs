//! Quotas of every kind.

use std::time::Duration;

use tidegate_core::{Algorithm, MAX_COUNT, MAX_PERIOD, MIN_PERIOD, Quota};

use crate::Random;

/// Returns a quota of any algorithm, with round, odd or extreme numbers.
pub fn random_quota(random: &mut Random) -> Quota {
    let algorithm = random.pick(&Algorithm::ALL);
    let (rate, period) = match random.below(8) {
        0..=2 => (random.between(1, 20), random.pick(&[1_000_000, 10_000_000, 60_000_000])),
        3..=5 => (random.pick(&[1, 2, 3, 7, 11, 97, 1_009]), random.pick(&[1_000, 9_973, 1_000_003, 60_000_011])),
        6 => (random.between(1, 1_000), random.between(1_000, 3_600_000_000)),
        _ => {
            let rate = random.pick(&[1, 2, MAX_COUNT - 1, MAX_COUNT, 4_294_967_291]);
            let ends = [MIN_PERIOD, MAX_PERIOD, MAX_PERIOD - Duration::from_micros(1)];
            (rate, random.pick(&ends).as_micros() as u64)
        }
    };
    // Mostly few enough to be in flight in a short trace.
    let rate = if algorithm == Algorithm::Concurrency && rate != MAX_COUNT { 1 + rate % 5 } else { rate };
    let quota = Quota::new(algorithm, rate, Duration::from_micros(period)).expect("numbers within the bounds");
    with_options(random, quota, rate, period).expect("options the algorithm uses, within the bounds")
}

fn with_options(
    random: &mut Random,
    mut quota: Quota,
    rate: u64,
    period: u64,
) -> Result<Quota, tidegate_core::QuotaError> {
    let bursts = matches!(quota.algorithm(), Algorithm::TokenBucket | Algorithm::FixedWindow);
    let starts = matches!(quota.algorithm(), Algorithm::FixedWindow | Algorithm::SlidingWindow);
    if bursts && random.one_in(2) {
        let capacity = match random.below(16) {
            // Rarely: it hardly ever denies.
            0 => MAX_COUNT,
            1..=5 => random.between(1, 50),
            _ => random.pick(&[1, rate / 2, rate + 1, rate * 3]),
        };
        quota = quota.capacity(capacity.clamp(1, MAX_COUNT))?;
    }
    if starts && random.one_in(2) {
        quota = quota.start(Duration::from_micros(random.below(period * 2)))?;
    }
    if quota.algorithm() == Algorithm::SlidingWindow {
        let divides = |buckets: &u64| period.is_multiple_of(*buckets);
        let buckets: Vec<u64> = [1, 2, 3, 5, 10, 60, 64].into_iter().filter(divides).collect();
        quota = quota.buckets(random.pick(&buckets))?;
    }
    if quota.algorithm() == Algorithm::Concurrency {
        return Ok(quota);
    }
    match random.below(4) {
        0 => quota.max_debt(random.between(0, 10)),
        1 => quota.max_debt(rate),
        _ => Ok(quota),
    }
}
