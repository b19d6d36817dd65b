//! Normalization of keys, so that different spellings count as one client.

use std::borrow::Cow;

use tidegate_core::Key;

use crate::net::{parse_address, truncate_address};

/// A normalization of the parts of a limit's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Normalize {
    /// Lower case: `Alice` becomes `alice`.
    Lowercase,
    /// No spaces around the part: ` alice ` becomes `alice`.
    Trim,
    /// Addresses: `::ffff:192.0.2.1` becomes `192.0.2.1`, and an IPv6 address its first `ipv6_prefix` bits. Other text
    /// stays as it is.
    Ip {
        /// The number of bits that identify an IPv6 client: 64 is the usual network of one customer.
        ipv6_prefix: u8,
    },
}

impl Normalize {
    pub(crate) fn apply<'a>(self, key: &'a Key<'_>) -> Key<'a> {
        if key.parts().all(|part| self.normalize_part(&part) == part) {
            return key.borrow();
        }
        key.map_parts(|part| self.normalize_part(part))
    }

    fn normalize_part(self, part: &str) -> Cow<'_, str> {
        match self {
            Normalize::Lowercase if part.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) => {
                Cow::Borrowed(part)
            }
            Normalize::Lowercase => Cow::Owned(part.to_lowercase()),
            Normalize::Trim => Cow::Borrowed(part.trim()),
            Normalize::Ip { ipv6_prefix } => match parse_address(part) {
                Some(address) => Cow::Owned(truncate_address(address, ipv6_prefix).to_string()),
                None => Cow::Borrowed(part),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_keys_become_equal() {
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
            assert_eq!(
                normalize.apply(&Key::from((before, "X "))),
                Key::from((after, normalize.normalize_part("X ").as_ref()))
            );
        }
        assert_eq!(Normalize::Trim.apply(&Key::GLOBAL), Key::GLOBAL);
        // No user can forge a reserved address, normalized or not.
        let reserved = Key::from("192.0.2.1").to_reserved().join(&Key::from("/Path"));
        let forged = Key::from(("%a", "192.0.2.1", "/Path"));
        assert_ne!(Normalize::Lowercase.apply(&reserved), Normalize::Lowercase.apply(&forged));
    }
}
