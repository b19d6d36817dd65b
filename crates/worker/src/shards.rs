//! The mapping of keys to objects.

use std::fmt;
use std::num::NonZeroU16;

use tidegate::Key;

/// The number of objects that the keys are spread over. The first write makes it permanent. Another number would put
/// most keys into other objects, where they would begin anew, so the objects reject it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shards(NonZeroU16);

impl Default for Shards {
    fn default() -> Self {
        Shards(NonZeroU16::new(128).expect("more than none"))
    }
}

impl Shards {
    /// Creates a number of objects. Returns `None` for 0.
    pub fn new(count: u16) -> Option<Self> {
        NonZeroU16::new(count).map(Shards)
    }

    /// Returns the number of objects.
    pub fn count(self) -> u16 {
        self.0.get()
    }

    /// Returns the index of the object that a key lives in. It does not depend on the limit, so that limits on one key
    /// can be taken all or nothing.
    pub fn index_of(self, key: &Key<'_>) -> u16 {
        let rest = fnv1a(key.to_text().as_bytes()) % u32::from(self.count());
        u16::try_from(rest).expect("less than the count")
    }
}

impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.count().fmt(f)
    }
}

/// Returns the name of an object by its index.
pub(crate) fn object_name(shard: u16) -> String {
    format!("rate-limiter-{shard}")
}

/// FNV-1a with 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_and_object_names_match_the_published_values() {
        for (text, hash) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(fnv1a(text.as_bytes()), hash, "{text}");
        }
        assert_eq!(object_name(7), "rate-limiter-7");
        assert_eq!(Shards::default().index_of(&Key::from("foobar")), (0xbf9c_f968_u32 % 128) as u16);
    }

    /// The chi-square statistic of 10,000 keys over 128 objects is below 181.99, where 127 degrees of freedom have
    /// p = 0.001.
    #[test]
    fn keys_spread_evenly_over_the_objects() {
        type Name = fn(u32) -> String;
        let families: [(&str, Name); 4] = [
            ("users", |n| format!("user-{n}")),
            ("numbers", |n| n.to_string()),
            ("addresses", |n| format!("10.{}.{}.{}", n >> 16, (n >> 8) & 255, n & 255)),
            ("padded", |n| format!("tenant-{n:08}")),
        ];
        for (family, name) in families {
            let mut counts = [0_u32; 128];
            (0..10_000).for_each(|n| counts[usize::from(Shards::default().index_of(&Key::from(name(n))))] += 1);
            // In units of 1 / 10,000, so that there is no float: sum of (count - 10,000/128)^2 / (10,000/128).
            let sum: u64 = counts.iter().map(|count| (u64::from(*count) * 128).abs_diff(10_000).pow(2)).sum();
            let statistic = sum / 128;
            assert!(statistic < 1_819_900, "{family}: {statistic}");
        }
    }
}
