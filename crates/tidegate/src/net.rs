//! IP addresses and networks, parsed strictly.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Parses an address as clients and proxies write it: brackets and a zone are dropped, IPv4 in IPv6 becomes IPv4. Leading zeros
/// in IPv4 are an error, because programs disagree about their meaning.
pub(crate) fn parse_address(text: &str) -> Option<IpAddr> {
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address: IpAddr = match text.split_once('%') {
        Some((address, zone)) if !zone.is_empty() => IpAddr::V6(address.parse().ok()?),
        Some(_) => return None,
        None => text.parse().ok()?,
    };
    Some(address.to_canonical())
}

/// Reduces an IPv6 address to its first `prefix` bits; an IPv4 address stays whole.
pub(crate) fn truncate_address(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask(prefix, 128))),
    }
}

/// A network, such as `203.0.113.0/24`. A plain address is a network of one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Returns whether the address is in the network. IPv4 in IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = mask(self.prefix, 32) as u32;
                network.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = mask(self.prefix, 128);
                network.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

/// Returns `prefix` ones, followed by zeros, in a number of `width` bits.
fn mask(prefix: u8, width: u32) -> u128 {
    let zeros = width - u32::from(prefix).min(width);
    u128::MAX.checked_shl(zeros).unwrap_or(0)
}

/// A set of disjoint networks, in which an address is found by one search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Networks {
    /// The last address of each network by its first.
    v4: BTreeMap<u32, u32>,
    v6: BTreeMap<u128, u128>,
}

impl Networks {
    pub(crate) fn insert(&mut self, Network { address, prefix }: Network) {
        match address {
            IpAddr::V4(address) => {
                let (address, mask) = (address.to_bits(), mask(prefix, 32) as u32);
                insert_range(&mut self.v4, address & mask, address | !mask);
            }
            IpAddr::V6(address) => {
                let (address, mask) = (address.to_bits(), mask(prefix, 128));
                insert_range(&mut self.v6, address & mask, address | !mask);
            }
        }
    }

    pub(crate) fn extend(&mut self, others: Networks) {
        others.v4.into_iter().for_each(|(first, last)| insert_range(&mut self.v4, first, last));
        others.v6.into_iter().for_each(|(first, last)| insert_range(&mut self.v6, first, last));
    }

    /// Returns whether the address is in one of them. IPv4 in IPv6 counts as IPv4.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => contains_address(&self.v4, address.to_bits()),
            IpAddr::V6(address) => contains_address(&self.v6, address.to_bits()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

/// Adds a network. Two networks are disjoint, or one contains the other.
fn insert_range<A: Ord + Copy>(networks: &mut BTreeMap<A, A>, first: A, last: A) {
    // Contained in a single network: two smaller ones may contain its first and last address, and not all between.
    if networks.range(..=first).next_back().is_some_and(|(_, end)| last <= *end) {
        return;
    }
    while let Some((&within, _)) = networks.range(first..=last).next() {
        networks.remove(&within);
    }
    networks.insert(first, last);
}

fn contains_address<A: Ord + Copy>(networks: &BTreeMap<A, A>, address: A) -> bool {
    networks.range(..=address).next_back().is_some_and(|(_, last)| address <= *last)
}

/// The error of a text that is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a network: expected an address or an address with a prefix, such as 203.0.113.0/24")]
pub struct NetworkError(String);

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let parse = || {
            let Some((address, prefix)) = text.split_once('/') else {
                let address = parse_address(text)?;
                return Some(Network { address, prefix: if address.is_ipv4() { 32 } else { 128 } });
            };
            let address: IpAddr = address.parse().ok()?;
            let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
            let prefix: u8 = prefix.parse().ok().filter(|_| digits)?;
            let max_prefix = if address.is_ipv4() { 32 } else { 128 };
            match (address, address.to_canonical()) {
                // ::ffff:203.0.113.0/120 is 203.0.113.0/24. A shorter prefix would be IPv4 and more, so it is surely a
                // mistake.
                (IpAddr::V6(_), IpAddr::V4(v4)) => {
                    (96..=128).contains(&prefix).then(|| Network { address: v4.into(), prefix: prefix - 96 })
                }
                _ => (prefix <= max_prefix).then_some(Network { address, prefix }),
            }
        };
        parse().ok_or_else(|| NetworkError(text.to_owned()))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_contains_exactly_the_addresses_of_its_networks() {
        let texts = [
            "203.0.113.0/24",
            "203.0.113.9",
            "203.0.112.0/23",
            "203.0.114.0/24",
            "192.0.2.0",
            "192.0.2.255",
            "192.0.2.0/24",
            "198.51.100.7",
            "0.0.0.0/32",
            "255.255.255.255",
            "2001:db8::/32",
            "2001:db8::1",
            "::/128",
            "2001:db8:0:1::/64",
            "2001:db8:0:2::",
            "2001:db8:0:2:ffff:ffff:ffff:ffff",
            "2001:db8:0:2::/64",
            "ffff::/16",
        ];
        let one_by_one: Vec<Network> = texts.iter().map(|text| text.parse().unwrap()).collect();
        for turn in 0..texts.len() {
            let (mut first, mut second) = (Networks::default(), Networks::default());
            one_by_one.iter().cycle().skip(turn).take(turn + 3).for_each(|network| first.insert(*network));
            one_by_one.iter().for_each(|network| second.insert(*network));
            first.extend(second);
            for address in [
                "203.0.111.255",
                "203.0.112.0",
                "203.0.113.9",
                "203.0.113.255",
                "203.0.114.0",
                "203.0.115.0",
                "192.0.2.77",
                "198.51.100.6",
                "198.51.100.7",
                "0.0.0.0",
                "0.0.0.1",
                "255.255.255.254",
                "255.255.255.255",
                "::",
                "::1",
                "2001:db7:ffff::",
                "2001:db8::",
                "2001:db8:ffff::",
                "2001:db9::",
                "fffe:ffff::",
                "ffff:ffff::",
                "::ffff:203.0.113.1",
            ] {
                let address: IpAddr = address.parse().unwrap();
                let expected = one_by_one.iter().any(|network| network.contains(address));
                assert_eq!(first.contains(address), expected, "{address}");
            }
        }
        assert!(!Networks::default().contains(IpAddr::from([0, 0, 0, 0])) && Networks::default().is_empty());
    }

    #[test]
    fn network_contains_exactly_its_addresses() {
        let inside = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(parse_address(address).unwrap())
        };
        assert!(inside("203.0.113.0/24", "203.0.113.0"));
        assert!(inside("203.0.113.0/24", "203.0.113.255"));
        assert!(!inside("203.0.113.0/24", "203.0.114.0"));
        assert!(!inside("203.0.113.0/24", "203.0.112.255"));
        assert!(inside("203.0.113.0/24", "::ffff:203.0.113.9"));
        assert!(inside("::ffff:203.0.113.0/120", "203.0.113.9"));
        assert!(inside("0.0.0.0/0", "255.255.255.255"));
        assert!(!inside("0.0.0.0/0", "::1"));
        assert!(inside("198.51.100.7", "198.51.100.7"));
        assert!(!inside("198.51.100.7", "198.51.100.8"));
        assert!(inside("2001:db8::/32", "[2001:db8:ffff::1]"));
        assert!(inside("fe80::/10", "fe80::1%eth0"));
        assert!(inside("::/0", "::1"));
    }

    #[test]
    fn invalid_network_is_rejected() {
        for text in ["", "/", "203.0.113.0/", "203.0.113.0/33", "203.0.113.0/+8", "203.0.113.0/ 8", "::/129", "1.2.3/8"]
        {
            assert!(text.parse::<Network>().is_err(), "{text:?}");
        }
        for text in ["", "198.051.100.7", "1.2.3", "fe80::1%", "1.2.3.4%eth0", "[1.2.3.4", "1.2.3.4:80", "::1::"] {
            assert_eq!(parse_address(text), None, "{text:?}");
        }
    }
}
