//! A deterministic random number generator.

/// A SplitMix64 generator: a seed gives the same numbers on every platform and in every version.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a generator that starts from `seed`.
    pub const fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns the next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 up to, but not including, `end`, which is at least 1.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns a number from `first` to `last`, both included.
    pub const fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// Returns a number of a random width, from `least` to `most` bits. Small numbers are as likely as large ones.
    pub const fn of_bits(&mut self, least: u64, most: u64) -> u64 {
        let bits = self.between(least, most);
        self.below(1 << bits)
    }

    /// Returns true in one of `n` cases.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `items`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_matches_the_published_numbers() {
        let mut random = Random::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
