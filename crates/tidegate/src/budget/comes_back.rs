//! What comes back of an estimate without anybody giving it back.

use std::time::Duration;

use tidegate_core::{Algorithm, Quota};

/// How much of `estimate` has come back by itself, at most, so long after it was taken. `next_after` is what the decision
/// said then: when the next of it comes back.
pub(super) fn by_itself(quota: &Quota, estimate: u64, elapsed: Duration, next_after: Option<Duration>) -> u64 {
    let parts = quota.parts();
    let (elapsed, period) = (elapsed.as_micros(), parts.period.as_micros());
    let back = match parts.algorithm {
        Algorithm::TokenBucket => (elapsed * u128::from(parts.rate)).div_ceil(period),
        // A whole grant with each window that has begun since.
        Algorithm::FixedWindow => match next_after.map(|next| next.as_micros()) {
            Some(next) if elapsed < next => 0,
            next => (1 + (elapsed - next.unwrap_or(0)) / period) * u128::from(parts.rate),
        },
        // It loses its weight within a period, at first more slowly than evenly.
        Algorithm::SlidingWindow => (u128::from(estimate) * elapsed).div_ceil(period),
        // All of it at once.
        _ if elapsed < period => 0,
        _ => estimate.into(),
    };
    u64::try_from(back).unwrap_or(u64::MAX).min(estimate)
}

#[cfg(test)]
mod tests {
    use tidegate_core::{millis, seconds};

    use super::*;

    #[test]
    fn as_much_as_each_algorithm_gives() {
        let bucket = Quota::token_bucket(10, seconds(1)).unwrap();
        let fixed = Quota::fixed_window(10, seconds(1)).unwrap();
        let sliding = Quota::sliding_window(10, seconds(1)).unwrap();
        let log = Quota::sliding_log(10, seconds(1)).unwrap();
        let cases = [
            (bucket, 0, 0),
            (bucket, 1, 1), // rounded up
            (bucket, 250, 3),
            (bucket, 5_000, 8),
            (fixed, 0, 0),
            (fixed, 299, 0),
            (fixed, 300, 8), // the next window
            (sliding, 0, 0),
            (sliding, 500, 4),
            (sliding, 2_000, 8),
            (log, 999, 0),
            (log, 1_000, 8),
        ];
        for (quota, elapsed, back) in cases {
            let found = by_itself(&quota, 8, millis(elapsed), Some(millis(300)));
            assert_eq!(found, back, "{} after {elapsed} ms", quota.algorithm());
        }
        let two = Quota::fixed_window(3, seconds(1)).unwrap().capacity(20).unwrap();
        assert_eq!(by_itself(&two, 8, millis(1_300), Some(millis(300))), 6, "two grants");
    }
}
