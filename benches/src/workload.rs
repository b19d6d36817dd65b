//! The keys of the workloads and their order, equal for every limiter and in every run.

use std::sync::atomic::{AtomicU64, Ordering};

/// The distribution of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyDraw {
    Hot,
    Uniform,
    Zipf,
}

impl KeyDraw {
    pub(crate) fn name(self) -> &'static str {
        match self {
            KeyDraw::Hot => "hot key",
            KeyDraw::Uniform => "1M uniform",
            KeyDraw::Zipf => "1M zipf",
        }
    }
}

/// Returns the next seed. The sequence is the same in every run. Equal seeds would give equal keys in every round.
pub(crate) fn next_seed() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(crate) const KEYS: u64 = 1_000_000;

/// Returns a stream of `len` key numbers.
pub(crate) fn key_numbers(draw: KeyDraw, len: usize, seed: u64) -> Vec<u64> {
    let mut random = Random(seed);
    match draw {
        KeyDraw::Hot => vec![7; len],
        KeyDraw::Uniform => (0..len).map(|_| random.next() % KEYS).collect(),
        KeyDraw::Zipf => {
            // The inverse of the cumulative distribution, with an exponent of 1, as measured at many sites.
            let mut sum = 0.0;
            let sums: Vec<f64> = (1..=KEYS)
                .map(|rank| {
                    sum += 1.0 / rank as f64;
                    sum
                })
                .collect();
            (0..len)
                .map(|_| {
                    let at = random.next() as f64 / u64::MAX as f64 * sum;
                    // Spread, so that neighbours in rank are not neighbours in number.
                    (sums.partition_point(|sum| *sum < at) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS
                })
                .collect()
        }
    }
}

/// Returns a user's key of 24 bytes.
pub(crate) fn key_text(number: u64) -> String {
    format!("user-{:019}", number.wrapping_mul(7_919))
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

/// Returns the median.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the median ratio of one to the other over their common rounds. Noise on the machine affects both nearly
/// alike in a round.
pub(crate) fn median_ratio(one: &[f64], other: &[f64]) -> f64 {
    median(one.iter().zip(other).map(|(one, other)| one / other))
}
