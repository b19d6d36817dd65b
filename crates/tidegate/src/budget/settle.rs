//! The part of an estimate that a settlement may refund.

use std::time::Duration;

use tidegate_core::{Algorithm, Quota};

/// Returns how much of `rest`, the unspent part of an estimate, may be refunded so long after the hold.
///
/// Units that have been replenished meanwhile are not refunded. A full bucket gains no more, and in sliding algorithms
/// old units no longer count. Refunding them would credit them twice. `missing` units were missing after the hold, and
/// the next ones were to be replenished after `next_after`.
pub(super) fn refundable(quota: &Quota, rest: u64, missing: u64, next_after: Duration, elapsed: Duration) -> u64 {
    let parts = quota.parts();
    let (elapsed, next_after, period) = (elapsed.as_micros(), next_after.as_micros(), parts.period.as_micros());
    let (missing, rate) = (u128::from(missing), u128::from(parts.rate));
    let back = match parts.algorithm {
        Algorithm::TokenBucket => missing.saturating_sub((elapsed * rate).div_ceil(period)),
        Algorithm::FixedWindow if elapsed < next_after => missing,
        // Each window that has begun since replenishes a whole grant.
        Algorithm::FixedWindow => missing.saturating_sub((1 + (elapsed - next_after) / period) * rate),
        // Its weight falls to zero within a period, never faster than linearly.
        Algorithm::SlidingWindow => u128::from(rest) * period.saturating_sub(elapsed) / period,
        // All of it at once.
        _ if elapsed < period => rest.into(),
        _ => 0,
    };
    u64::try_from(back).unwrap_or(u64::MAX).min(rest)
}

#[cfg(test)]
mod tests {
    use tidegate_core::{millis, seconds};

    use super::*;

    #[test]
    fn units_that_were_replenished_are_not_refunded() {
        let bucket = Quota::token_bucket(10, seconds(1)).unwrap().capacity(100).unwrap();
        let fixed = Quota::fixed_window(15, seconds(1)).unwrap().capacity(100).unwrap();
        let sliding = Quota::sliding_window(100, seconds(1)).unwrap();
        let log = Quota::sliding_log(100, seconds(1)).unwrap();
        let cases = [
            (bucket, 0, 8),
            (bucket, 1_200, 8), // 12 of the 20 missing units are replenished: 8 are not
            (bucket, 1_201, 7), // rounded up
            (bucket, 1_900, 1),
            (bucket, 60_000, 0),
            (fixed, 299, 8),
            (fixed, 300, 5), // the next window brings 15 of 20
            (fixed, 1_300, 0),
            (sliding, 0, 8),
            (sliding, 500, 4),
            (sliding, 501, 3),
            (sliding, 2_000, 0),
            (log, 999, 8),
            (log, 1_000, 0),
        ];
        // A hold that left 80 of 100; the next units are replenished in 300 ms.
        for (quota, elapsed, back) in cases {
            let found = refundable(&quota, 8, 20, millis(300), millis(elapsed));
            assert_eq!(found, back, "{} after {elapsed} ms", quota.algorithm());
        }
    }

    /// The numbers of a token may be forged.
    #[test]
    fn refund_is_never_more_than_the_rest() {
        let quotas = [Quota::token_bucket, Quota::fixed_window, Quota::sliding_window, Quota::sliding_log];
        for quota in quotas.map(|quota| quota(10, seconds(1)).unwrap()) {
            for number in [0, 1, u64::MAX] {
                for span in [Duration::ZERO, Duration::from_micros(u64::MAX), Duration::MAX] {
                    assert!(refundable(&quota, 8, number, span, Duration::ZERO) <= 8);
                    assert!(refundable(&quota, 8, number, Duration::ZERO, span) <= 8);
                }
            }
        }
    }
}
