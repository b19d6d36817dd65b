//! Which key is asked for next.

use std::f64::consts::LN_2;

use super::random::Random;
use crate::cli::Distribution;

/// Chooses keys, which are numbers from 0 on. It takes no memory, however many there are.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    distribution: Distribution,
    count: u64,
    random: Random,
}

impl Keys {
    /// The keys of one connection: each has its own, which are the same in every run with that seed.
    pub(super) fn new(distribution: Distribution, count: u64, seed: u64, connection: u64) -> Self {
        // Seeds that follow each other give the same numbers, shifted: so the connection is stirred in first.
        let mut stirred = Random::new(connection);
        Keys { distribution, count, random: Random::new(seed ^ stirred.next()) }
    }

    pub(super) fn next(&mut self) -> u64 {
        match self.distribution {
            Distribution::One => 0,
            Distribution::Uniform => self.random.below(self.count),
            Distribution::Zipf => self.zipf() - 1,
        }
    }

    /// A number `k` from 1 to `count`, with a probability in proportion to 1/k.
    ///
    /// The logarithm of a number is drawn evenly and cut to a whole `k`: that has a probability in proportion to
    /// ln(1 + 1/k), which is a little too little for small `k` compared with large ones. So large ones are drawn again,
    /// as often as makes it right: at most 31 times in 100.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How far counts are from what is expected: for honest ones about as much as there are of them, give or take a few
    /// times the square root of twice that.
    fn chi_square(counts: &[u64], expected: impl Fn(usize) -> f64) -> f64 {
        let term = |(at, count): (usize, &u64)| (*count as f64 - expected(at)).powi(2) / expected(at);
        counts.iter().enumerate().map(term).sum()
    }

    fn drawn(distribution: Distribution, count: u64, draws: u64) -> Vec<u64> {
        let mut keys = Keys::new(distribution, count, 1, 0);
        let mut counts = vec![0; count as usize];
        for _ in 0..draws {
            counts[keys.next() as usize] += 1;
        }
        counts
    }

    #[test]
    fn zipf_has_the_frequencies_of_zipf() {
        for (count, draws) in [(1, 100), (2, 10_000), (10, 100_000), (1_000, 2_000_000)] {
            let counts = drawn(Distribution::Zipf, count, draws);
            let sum: f64 = (1..=count).map(|k| 1.0 / k as f64).sum();
            let far = chi_square(&counts, |at| draws as f64 / sum / (at + 1) as f64);
            let bound = count as f64 + 4.0 * (2.0 * count as f64).sqrt();
            assert!(far < bound, "{count} keys: {far}, expected below {bound}");
        }
    }

    #[test]
    fn uniform_is_even_and_one_is_one() {
        let counts = drawn(Distribution::Uniform, 100, 100_000);
        let far = chi_square(&counts, |_| 1_000.0);
        assert!((50.0..160.0).contains(&far), "{far}");
        assert_eq!(drawn(Distribution::One, 1, 10), [10]);
    }

    #[test]
    fn a_seed_gives_the_same_keys_and_another_others() {
        let take = |seed, connection| {
            let mut keys = Keys::new(Distribution::Uniform, 1_000_000, seed, connection);
            std::array::from_fn::<_, 20, _>(|_| keys.next())
        };
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(2, 0));
        assert_ne!(take(1, 0), take(1, 1));
        // Nor the same ones a little later.
        assert!(!take(1, 1).contains(&take(1, 0)[10]));
    }

    #[test]
    fn as_many_keys_as_there_may_be() {
        let mut keys = Keys::new(Distribution::Zipf, 1_000_000_000, 1, 0);
        let drawn: Vec<u64> = (0..10_000).map(|_| keys.next()).collect();
        assert!(drawn.iter().all(|key| *key < 1_000_000_000));
        assert!(drawn.iter().any(|key| *key > 100_000_000) && drawn.contains(&0));
    }
}
