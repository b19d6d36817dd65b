//! How much of an estimate a settlement may refund.

use std::time::Duration;

use tidegate_core::{Algorithm, Decision, Quota};

/// Returns how much of `rest`, the unspent part of an estimate, may be refunded so long after `held` was decided.
///
/// Not what has been replenished meanwhile: a full bucket gains no more, and units that count by their age have grown old. A refund
/// of those, too, would credit them twice.
pub(super) fn refundable(quota: &Quota, rest: u64, held: &Decision, elapsed: Duration) -> u64 {
    let parts = quota.parts();
    let (elapsed, period) = (elapsed.as_micros(), parts.period.as_micros());
    let missing = u128::from(held.limit() - held.remaining());
    let back = match parts.algorithm {
        Algorithm::TokenBucket => missing.saturating_sub((elapsed * u128::from(parts.rate)).div_ceil(period)),
        // Each window that has begun since replenishes a whole grant.
        Algorithm::FixedWindow => match held.next_after().map(|next| next.as_micros()) {
            Some(next) if elapsed < next => missing,
            next => {
                let windows = 1 + (elapsed - next.unwrap_or(0)) / period;
                missing.saturating_sub(windows * u128::from(parts.rate))
            }
        },
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
    use tidegate_core::{DecisionParts, millis, seconds};

    use super::*;

    /// A hold that left 80 of 100; the next units are replenished in 300 ms.
    fn held() -> Decision {
        DecisionParts {
            allowed: true,
            limit: 100,
            remaining: 80,
            retry_after: None,
            next_after: Some(300_000),
            reset_after: 0,
            reason: None,
        }
        .into()
    }

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
        for (quota, elapsed, back) in cases {
            let found = refundable(&quota, 8, &held(), millis(elapsed));
            assert_eq!(found, back, "{} after {elapsed} ms", quota.algorithm());
        }
    }
}
