//! Normalization of keys, so that different spellings count as one client.

use std::borrow::Cow;

use tidegate_core::Key;

use crate::net::{cut, parse_address};

/// A normalization of the parts of a limit's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Normalize {
    /// `Alice` is `alice`.
    Lowercase,
    /// ` alice ` is `alice`.
    Trim,
    /// `::ffff:192.0.2.1` is `192.0.2.1`, and an IPv6 address is its first `ipv6_prefix` bits. What is not an
    /// address stays as it is.
    Ip {
        /// How many bits of an IPv6 address tell clients apart: 64 is what one customer usually has.
        ipv6_prefix: u8,
    },
}

impl Normalize {
    pub(crate) fn apply<'a>(self, key: &'a Key<'_>) -> Key<'a> {
        if key.parts().all(|part| self.part(&part) == part) {
            return key.borrow();
        }
        key.map_parts(|part| self.part(part))
    }

    fn part(self, part: &str) -> Cow<'_, str> {
        match self {
            Normalize::Lowercase if part.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) => {
                Cow::Borrowed(part)
            }
            Normalize::Lowercase => Cow::Owned(part.to_lowercase()),
            Normalize::Trim => Cow::Borrowed(part.trim()),
            Normalize::Ip { ipv6_prefix } => match parse_address(part) {
                Some(address) => Cow::Owned(cut(address, ipv6_prefix).to_string()),
                None => Cow::Borrowed(part),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_mean_the_same_become_the_same() {
        let ip = Normalize::Ip { ipv6_prefix: 64 };
        let cases = [
            (Normalize::Lowercase, "Alice", "alice"),
            (Normalize::Lowercase, "ÄB|c%", "äb|c%"),
            (Normalize::Lowercase, "\u{1c5}enan", "\u{1c6}enan"),
            (Normalize::Trim, "  a b\t", "a b"),
            (ip, "::ffff:192.0.2.1", "192.0.2.1"),
            (ip, "2001:DB8::1:2:3:4", "2001:db8::"),
            (ip, "[2001:db8:0:1::9]", "2001:db8:0:1::"),
            (ip, "fe80::1%eth0", "fe80::"),
            (ip, "not an address", "not an address"),
            (Normalize::Ip { ipv6_prefix: 128 }, "2001:db8::1", "2001:db8::1"),
        ];
        for (normalize, before, after) in cases {
            assert_eq!(normalize.apply(&Key::from(before)), Key::from(after), "{before}");
            assert_eq!(normalize.apply(&Key::from((before, "X "))), Key::from((after, normalize.part("X ").as_ref())));
        }
        assert_eq!(Normalize::Trim.apply(&Key::GLOBAL), Key::GLOBAL);
        // An address that stands in for a user stays what no user can be.
        let apart = Key::from("192.0.2.1").to_reserved().join(&Key::from("/Path"));
        let forged = Key::from(("%a", "192.0.2.1", "/Path"));
        assert_ne!(Normalize::Lowercase.apply(&apart), Normalize::Lowercase.apply(&forged));
    }
}
