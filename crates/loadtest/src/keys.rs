//! The sequence of keys that a connection requests: one key, uniform or Zipf, reproducible from a seed.

use std::f64::consts::LN_2;

use clap::ValueEnum;

// The doc comments of the variants are the help of `tidegate bench --keys`.
/// The distribution of requests over keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyDistribution {
    /// One key.
    One,
    /// All equally often.
    Uniform,
    /// The n-th one n times as seldom as the first.
    Zipf,
}

/// A generator of keys, which are numbers from 0 on. It takes constant memory for any number of keys.
#[derive(Debug, Clone)]
pub(crate) struct KeySequence {
    distribution: KeyDistribution,
    count: u64,
    random: SplitMix64,
}

impl KeySequence {
    /// Creates the keys of one connection: a sequence of its own, the same in every run with that seed.
    pub(crate) fn new(distribution: KeyDistribution, count: u64, seed: u64, connection: u64) -> Self {
        // Consecutive seeds give the same numbers, shifted. Mixing the connection first prevents that.
        let mut mixed = SplitMix64::new(connection);
        KeySequence { distribution, count, random: SplitMix64::new(seed ^ mixed.next()) }
    }

    pub(crate) fn next(&mut self) -> u64 {
        match self.distribution {
            KeyDistribution::One => 0,
            KeyDistribution::Uniform => self.random.below(self.count),
            KeyDistribution::Zipf => self.zipf() - 1,
        }
    }

    /// Returns a number `k` from 1 to `count`, with a probability in proportion to 1/k.
    ///
    /// Draws the logarithm uniformly and truncates to a whole `k`, which has a probability in proportion to
    /// ln(1 + 1/k): slightly too low for small `k`. Rejection sampling corrects that, with at most 31 rejections in 100
    /// draws.
    fn zipf(&mut self) -> u64 {
        let whole = (self.count as f64 + 1.0).ln();
        loop {
            let k = (self.random.fraction() * whole).exp().floor().clamp(1.0, self.count as f64);
            if self.random.fraction() * k * (1.0 / k).ln_1p() < LN_2 {
                return k as u64;
            }
        }
    }
}

/// The SplitMix64 generator.
#[derive(Debug, Clone)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// Returns the next 64 bits.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 up to, but not including, `end`.
    fn below(&mut self, end: u64) -> u64 {
        // The upper half of the product: no division, and a bias of at most end / 2^64.
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a number from 0 up to, but not including, 1.
    fn fraction(&mut self) -> f64 {
        // As many bits as a double holds exactly.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the chi-square statistic. For a correct generator it is about the number of counts, give or take a few
    /// times the square root of twice that.
    fn chi_square(counts: &[u64], expected: impl Fn(usize) -> f64) -> f64 {
        let term = |(at, count): (usize, &u64)| (*count as f64 - expected(at)).powi(2) / expected(at);
        counts.iter().enumerate().map(term).sum()
    }

    fn drawn(distribution: KeyDistribution, count: u64, draws: u64) -> Vec<u64> {
        let mut keys = KeySequence::new(distribution, count, 1, 0);
        let mut counts = vec![0; count as usize];
        for _ in 0..draws {
            counts[keys.next() as usize] += 1;
        }
        counts
    }

    #[test]
    fn zipf_keys_have_zipf_frequencies() {
        for (count, draws) in [(1, 100), (2, 10_000), (10, 100_000), (1_000, 2_000_000)] {
            let counts = drawn(KeyDistribution::Zipf, count, draws);
            let sum: f64 = (1..=count).map(|k| 1.0 / k as f64).sum();
            let far = chi_square(&counts, |at| draws as f64 / sum / (at + 1) as f64);
            let bound = count as f64 + 4.0 * (2.0 * count as f64).sqrt();
            assert!(far < bound, "{count} keys: {far}, expected below {bound}");
        }
    }

    #[test]
    fn uniform_keys_are_even_and_one_key_is_constant() {
        let counts = drawn(KeyDistribution::Uniform, 100, 100_000);
        let far = chi_square(&counts, |_| 1_000.0);
        assert!((50.0..160.0).contains(&far), "{far}");
        assert_eq!(drawn(KeyDistribution::One, 1, 10), [10]);
    }

    #[test]
    fn equal_seeds_give_equal_keys_and_different_seeds_differ() {
        let take = |seed, connection| {
            let mut keys = KeySequence::new(KeyDistribution::Uniform, 1_000_000, seed, connection);
            std::array::from_fn::<_, 20, _>(|_| keys.next())
        };
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(2, 0));
        assert_ne!(take(1, 0), take(1, 1));
        // The sequences are not shifted copies either.
        assert!(!take(1, 1).contains(&take(1, 0)[10]));
    }

    #[test]
    fn a_billion_zipf_keys_stay_in_range() {
        let mut keys = KeySequence::new(KeyDistribution::Zipf, 1_000_000_000, 1, 0);
        let drawn: Vec<u64> = (0..10_000).map(|_| keys.next()).collect();
        assert!(drawn.iter().all(|key| *key < 1_000_000_000));
        assert!(drawn.iter().any(|key| *key > 100_000_000) && drawn.contains(&0));
    }

    #[test]
    fn splitmix64_matches_its_published_sequence() {
        let mut random = SplitMix64::new(1_234_567);
        let numbers = [random.next(), random.next(), random.next()];
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
