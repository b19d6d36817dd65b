//! The probability with which a throttle holds a request back, in whole numbers.

/// The factor K as a fraction: the service gets `requests` for every `accepts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThrottleFactor {
    requests: u16,
    accepts: u16,
}

impl ThrottleFactor {
    /// Creates a factor; less than 1 counts as 1: below it, even a service that accepts everything would get ever fewer requests.
    pub(super) fn new(requests: u16, accepts: u16) -> Self {
        let accepts = accepts.max(1);
        ThrottleFactor { requests: requests.max(accepts), accepts }
    }
}

/// Returns whether a request is held back: with probability max(0, (requests - K * accepts) / (requests + 1)), for `random`
/// distributed uniformly over 64 bits. Exact for fewer than 2^47 requests.
pub(super) fn should_reject(requests: u64, accepts: u64, k: ThrottleFactor, random: u64) -> bool {
    // Both sides of the comparison with random / 2^64, times (requests + 1) and the denominator of K.
    let requested = u128::from(requests) * u128::from(k.accepts);
    let granted = u128::from(accepts) * u128::from(k.requests);
    let excess = requested.saturating_sub(granted);
    u128::from(random) * (u128::from(requests) + 1) * u128::from(k.accepts) < excess << 64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the threshold of the random number: requests with a smaller number are held back.
    fn threshold(requests: u64, accepts: u64, k: ThrottleFactor) -> u128 {
        let (mut low, mut high) = (0_u128, 1 << 64);
        while low < high {
            let middle = (low + high) / 2;
            match should_reject(requests, accepts, k, middle as u64) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    #[test]
    fn probability_is_that_of_the_formula() {
        let (two, one_and_a_tenth, one) =
            (ThrottleFactor::new(2, 1), ThrottleFactor::new(11, 10), ThrottleFactor::new(1, 1));
        // requests, accepts, the factor, and the probability as a fraction.
        let cases = [
            (0, 0, two, (0, 1)),
            (1, 0, two, (1, 2)),
            (3, 0, two, (3, 4)),
            (100, 0, two, (100, 101)),
            (100, 100, two, (0, 1)),
            (100, 50, two, (0, 1)),
            (100, 49, two, (2, 101)),
            (100, 10, two, (80, 101)),
            (10, 20, two, (0, 1)),
            (100, 90, one_and_a_tenth, (1, 101)),
            (100, 91, one_and_a_tenth, (0, 1)),
            (100, 50, one_and_a_tenth, (45, 101)),
            (100, 99, one, (1, 101)),
            (1 << 46, 0, two, (1_u64 << 46, (1_u128 << 46) + 1)),
        ];
        for (requests, accepts, k, (numerator, denominator)) in cases {
            let exact = (u128::from(numerator) << 64_u32).div_ceil(denominator);
            assert_eq!(threshold(requests, accepts, k), exact, "{requests} {accepts} {k:?}");
        }
    }

    #[test]
    fn k_below_one_counts_as_one() {
        assert_eq!(ThrottleFactor::new(1, 2), ThrottleFactor::new(2, 2));
        assert_eq!(ThrottleFactor::new(0, 0), ThrottleFactor::new(1, 1));
    }

    #[test]
    fn largest_counts_do_not_overflow() {
        let k = ThrottleFactor::new(u16::MAX, u16::MAX);
        assert!(!should_reject((1 << 47) - 1, (1 << 47) - 1, k, 0));
        assert!(should_reject((1 << 47) - 1, 0, k, u64::MAX - (1 << 20)));
    }
}
