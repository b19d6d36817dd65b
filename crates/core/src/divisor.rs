//! Division by a constant with a precomputed reciprocal.

/// A number from 1 to 2^63 with its reciprocal.
///
/// A 64-bit division takes up to 90 cycles, more than the rest of a token bucket's step. Multiplying by the reciprocal
/// takes 10. docs/decisions/0032 has the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Divisor {
    value: u64,
    /// 2^64 / value, rounded down and below 2^64.
    reciprocal: u64,
}

impl Divisor {
    pub(crate) const fn new(value: u64) -> Self {
        Divisor { value, reciprocal: u64::MAX / value }
    }

    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.value
    }

    /// Returns `number / self`, rounded down, and the remainder. The number must be below 2^63.
    #[inline]
    pub(crate) const fn divide(self, number: u64) -> (u64, u64) {
        debug_assert!(number < 1 << 63);
        // The reciprocal is too small by less than 2, so the estimate is too small by at most 1.
        let estimate = ((number as u128 * self.reciprocal as u128) >> 64) as u64;
        let rest = number - estimate * self.value;
        if rest >= self.value { (estimate + 1, rest - self.value) } else { (estimate, rest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotient_and_remainder_are_exact() {
        let mut values: Vec<u64> = (0..63).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]).collect();
        values.extend([3, 7, 10_000_000, 36_000_000_007, (1 << 63) - 1, u64::from(u32::MAX)]);
        for value in values.iter().copied().filter(|value| *value > 0) {
            let divisor = Divisor::new(value);
            let multiples = values.iter().flat_map(|factor| {
                let product = factor.saturating_mul(value).min((1 << 63) - 1);
                [product.saturating_sub(1), product, product + 1]
            });
            for number in multiples.chain(values.iter().copied()).filter(|number| *number < 1 << 63) {
                assert_eq!(divisor.divide(number), (number / value, number % value), "{number} / {value}");
            }
        }
    }
}
