//! The upper bound on the units that a quota admits, checked over every interval of a trace.

use std::collections::BTreeMap;

use tidegate_core::{Algorithm, Quota};

/// The error of a quota whose bound was exceeded in some interval.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{admitted} admitted from {from} to {to}, where at most {bound} may be, under {quota:?}")]
pub struct BoundExceeded {
    /// The quota whose bound was exceeded.
    pub quota: Box<Quota>,
    /// The time of the first admission in the interval.
    pub from: u64,
    /// The time of the last admission.
    pub to: u64,
    /// The units admitted in the interval.
    pub admitted: u128,
    /// The most units that the bound permits.
    pub bound: u128,
}

/// Checks that the admissions of `limit` for one key stay within the quota's bound in every interval. `admitted` has
/// pairs of time and cost, in order of time. The bounds:
///
/// - `token_bucket`: the capacity plus the units refilled in the interval;
/// - `fixed_window`: the capacity plus one grant for each window entered;
/// - `sliding_window`: 2 * rate - 1 in any trailing period;
/// - `sliding_log`: rate in any trailing period.
///
/// Reservations, refunds and resets are not counted: they may exceed the bound.
pub fn check_admission_bound(quota: &Quota, admitted: &[(u64, u64)]) -> Result<(), BoundExceeded> {
    // Requests of the same time count together, so that every interval has all of its first and its last moment.
    let mut moments: BTreeMap<u64, u128> = BTreeMap::new();
    for (at, cost) in admitted {
        *moments.entry(*at).or_default() += u128::from(*cost);
    }
    let moments: Vec<(u64, u128)> = moments.into_iter().collect();
    for (index, &(from, _)) in moments.iter().enumerate() {
        let mut sum = 0;
        for &(to, cost) in &moments[index..] {
            sum += cost;
            let Some(bound) = admission_bound(quota, from, to) else { break };
            if sum > bound {
                return Err(BoundExceeded { quota: Box::new(*quota), from, to, admitted: sum, bound });
            }
        }
    }
    Ok(())
}

/// Returns the most units that may be admitted from `from` to `to`, both included. `None` when the rule does not cover
/// an interval of that length.
fn admission_bound(quota: &Quota, from: u64, to: u64) -> Option<u128> {
    let parts = quota.parts();
    let (rate, capacity, period) = (u128::from(parts.rate), u128::from(parts.capacity), parts.period.as_micros());
    let length = u128::from(to - from);
    match parts.algorithm {
        Algorithm::TokenBucket => Some(capacity + rate * length / period),
        Algorithm::FixedWindow => {
            let window = |at: u64| (i128::from(at) - parts.start.as_micros() as i128).div_euclid(period as i128);
            Some(capacity + rate * (window(to) - window(from)) as u128)
        }
        Algorithm::SlidingWindow => (length < period).then_some(2 * rate - 1),
        _ => (length < period).then_some(rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::seconds;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn one_unit_above_the_bound_is_detected() {
        let bucket = Quota::token_bucket(10, seconds(10)).unwrap();
        assert_eq!(check_admission_bound(&bucket, &[(0, 10), (SECOND, 1), (2 * SECOND, 1)]), Ok(()));
        assert!(check_admission_bound(&bucket, &[(0, 10), (SECOND - 1, 1)]).is_err());
        assert!(check_admission_bound(&bucket, &[(0, 10), (0, 1)]).is_err());

        let window = Quota::fixed_window(10, seconds(10)).unwrap();
        assert_eq!(check_admission_bound(&window, &[(9 * SECOND, 10), (10 * SECOND, 10)]), Ok(()));
        assert!(check_admission_bound(&window, &[(0, 10), (10 * SECOND - 1, 1)]).is_err());

        let log = Quota::sliding_log(10, seconds(10)).unwrap();
        assert_eq!(check_admission_bound(&log, &[(0, 10), (10 * SECOND, 10)]), Ok(()));
        assert!(check_admission_bound(&log, &[(0, 10), (10 * SECOND - 1, 1)]).is_err());

        let estimate = Quota::sliding_window(10, seconds(10)).unwrap();
        assert_eq!(check_admission_bound(&estimate, &[(0, 10), (10 * SECOND - 1, 9)]), Ok(()));
        assert!(check_admission_bound(&estimate, &[(0, 10), (10 * SECOND - 1, 10)]).is_err());
    }
}
