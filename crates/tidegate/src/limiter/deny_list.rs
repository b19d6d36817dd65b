//! Deny lists: keys and networks that are never admitted.

use std::collections::HashSet;
use std::net::IpAddr;

use tidegate_core::Key;

use super::Normalize;
use crate::net::{Network, NetworkError, Networks, parse_address};

/// Keys and networks that are never admitted.
///
/// An entry that is an address or a network matches a key if any part of the key is an address in it. Any other entry
/// matches the key of exactly that text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DenyList {
    keys: HashSet<Key<'static>>,
    networks: Networks,
}

impl DenyList {
    pub(crate) fn add(&mut self, entry: &str) -> Result<(), NetworkError> {
        match entry.parse::<Network>() {
            Ok(network) => self.networks.insert(network),
            // An entry that looks like an address must be a valid one: with a typo, the list would deny nothing.
            Err(error) if entry.is_empty() || looks_like_address(entry) => return Err(error),
            Err(_) => {
                self.keys.insert(Key::from(entry).into_owned());
            }
        }
        Ok(())
    }

    pub(crate) fn extend<E: AsRef<str>>(&mut self, entries: impl IntoIterator<Item = E>) -> Result<(), NetworkError> {
        entries.into_iter().try_for_each(|entry| self.add(entry.as_ref()))
    }

    pub(crate) fn merge(&mut self, other: DenyList) {
        self.keys.extend(other.keys);
        self.networks.extend(other.networks);
    }

    /// Adds the keys of a list, normalized.
    pub(crate) fn add_normalized(&mut self, list: &DenyList, normalize: Normalize) {
        self.keys.extend(list.keys.iter().map(|key| normalize.apply(key).into_owned()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.networks.is_empty()
    }

    pub(crate) fn contains(&self, key: &Key<'_>) -> bool {
        let in_network = |part: &str| parse_address(part).is_some_and(|address| self.contains_address(address));
        self.keys.contains(key) || (!self.networks.is_empty() && key.parts().any(|part| in_network(&part)))
    }

    pub(crate) fn contains_address(&self, address: IpAddr) -> bool {
        self.networks.contains(address)
    }
}

fn looks_like_address(entry: &str) -> bool {
    let entry = entry.trim();
    let made_of = |others: &str| entry.chars().all(|c| c.is_ascii_hexdigit() || others.contains(c));
    let is_address = |text: &str| parse_address(text.trim()).is_some();
    let begins_with_a_digit = entry.starts_with(|c: char| c.is_ascii_digit());
    let four = entry.contains('.') && begins_with_a_digit && made_of("./*");
    // With a port, or as a range.
    let no_letters = !entry.contains(|c: char| !c.is_ascii_digit() && !"./*:-, ".contains(c));
    let more_than_four = entry.matches('.').count() >= 3 && begins_with_a_digit && no_letters;
    let six = (entry.contains("::") || (entry.contains(':') && entry.contains('/'))) && made_of(":./[]%");
    // One group too few or too many. Fingerprints of certificates have more, and addresses of network cards have fewer.
    let nearly_eight = (7..=9).contains(&entry.split(':').count()) && made_of(":");
    let with_prefix = entry.split_once('/').is_some_and(|(address, _)| is_address(address));
    let range = entry.split_once('-').is_some_and(|(first, last)| is_address(first) && is_address(last));
    four || more_than_four || six || nearly_eight || with_prefix || range
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_match_keys_and_addresses() {
        let mut list = DenyList::default();
        list.extend(["mallory", "198.51.100.7", "203.0.113.0/24", "2001:db8::/32", "a|b"]).unwrap();
        for denied in ["mallory", "198.51.100.7", "203.0.113.200", "::ffff:203.0.113.1", "2001:db8::9", "a|b"] {
            assert!(list.contains(&Key::from(denied)), "{denied}");
        }
        for admitted in ["mallory2", "198.51.100.70", "203.0.114.1", "2001:db9::1", "", "a"] {
            assert!(!list.contains(&Key::from(admitted)), "{admitted}");
        }
        assert!(list.contains(&Key::from(("tenant", "203.0.113.9"))));
        assert!(!list.contains(&Key::from(("a", "b"))));
        assert!(!list.contains(&Key::GLOBAL));
    }

    #[test]
    fn mistyped_address_is_an_error() {
        let typos = [
            "",
            "203.0.113.0/240",
            "203.0.113/24",
            "203.0.113.*",
            " 203.0.113.7",
            "203.0.113.256",
            "198.051.100.7",
            "2001:db8::/129",
            "2001:db8/32",
            "::ffff:0:0/95",
            "203.0.113.7:443",
            "203.0.113.0-203.0.113.255",
            "203.0.113.0 - 255",
            "203.0.113.7, 203.0.113.8",
            "203.0.113.0 /24",
            "2001:db8:: /32",
            "[2001:db8::1]:443",
            "2001:db8::-2001:db8::ff",
            "2001:db8:0:0:0:0:1",
            "2001:db8:0:0:0:0:0:0:1",
        ];
        for typo in typos {
            assert!(DenyList::default().add(typo).is_err(), "{typo:?}");
        }
        for key in ["mallory", "10", "a.b.c", "user:7", "dead:beef", "v1.2", "x/y", "a-b", "tenant/7", "2026-01-01"] {
            assert!(DenyList::default().add(key).is_ok(), "{key:?}");
        }
        for key in ["203.0.113.7-ann", "203.0.113.7:ann", "02:00:5e:10:00:ff", &["ab"; 20].join(":")] {
            assert!(DenyList::default().add(key).is_ok(), "{key:?}");
        }
    }
}
