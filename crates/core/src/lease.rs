//! Lease ids of a concurrency limit.

use std::fmt;
use std::str::FromStr;

/// The id of a lease: one place of a `concurrency` limit. A client that knows the id holds the place.
///
/// An id is 64 bits that cannot be guessed. Its text is 16 lower-case hexadecimal digits.
///
/// ```
/// use tidegate_core::Lease;
///
/// let lease: Lease = "00c0ffee00c0ffee".parse()?;
/// assert_eq!(lease.to_string(), "00c0ffee00c0ffee");
/// assert_eq!(lease, Lease::from_bits(0x00c0_ffee_00c0_ffee));
/// # Ok::<(), tidegate_core::InvalidLease>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease(u64);

impl Lease {
    /// Creates a lease from its id. The caller must choose ids that are unique and cannot be guessed.
    pub const fn from_bits(bits: u64) -> Self {
        Lease(bits)
    }

    /// Returns the id.
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The error of a text that is not the id of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not the id of a lease: expected 16 lower-case hexadecimal digits, as `admit` answered")]
pub struct InvalidLease;

impl FromStr for Lease {
    type Err = InvalidLease;

    fn from_str(text: &str) -> Result<Self, InvalidLease> {
        // A lease has one text only. `from_str_radix` alone would accept a sign and capitals.
        let is_canonical = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let bits = is_canonical.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        bits.map(Lease).ok_or(InvalidLease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_has_exactly_one_text() {
        for bits in [0, 1, 0xffff_ffff, u64::MAX, 0x0123_4567_89ab_cdef] {
            let text = Lease(bits).to_string();
            assert_eq!((text.len(), text.parse()), (16, Ok(Lease(bits))));
        }
        let wrong = [
            "",
            "1",
            "0123456789abcdeF",
            "+123456789abcdef",
            "0123456789abcdef0",
            "0123456789abcde ",
            "é23456789abcdef",
        ];
        for text in wrong {
            let error = text.parse::<Lease>().unwrap_err().to_string();
            assert!(error.contains("16 lower-case hexadecimal digits"), "{text:?}: {error}");
        }
    }
}
