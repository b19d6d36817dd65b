//! One address, as proxies write it.

use std::net::IpAddr;

use crate::net::parse_address;

/// More than an address with a zone and a port has. What is longer is none, and not looked at.
pub(super) const LONGEST: usize = 128;

/// The entries of a line with commas between them, from the right. `None` is one that is not an address; an empty
/// one is not.
pub(super) fn addresses(line: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    line.rsplit(|byte| *byte == b',').map(|entry| address(entry.trim_ascii()))
}

/// An address without what may be around it: `203.0.113.9:4711` and `[2001:db8::17%eth0]:4711` are addresses too.
pub(super) fn address(entry: &[u8]) -> Option<IpAddr> {
    if entry.len() > LONGEST || !entry.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let text = str::from_utf8(entry).ok()?;
    let (address, port) = match text.strip_prefix('[') {
        Some(text) => match text.split_once(']')? {
            (address, "") => (address, None),
            (address, after) => (address, Some(after.strip_prefix(':')?)),
        },
        // A single colon is that of a port: an IPv6 address has two at least.
        None => match text.split_once(':') {
            Some((address, port)) if !port.contains(':') => (address, Some(port)),
            _ => (text, None),
        },
    };
    if port.is_some_and(|port| !is_port(port)) {
        return None;
    }
    parse_address(address)
}

/// A port, or what stands for one in RFC 7239: `_` and a name.
fn is_port(port: &str) -> bool {
    match port.strip_prefix('_') {
        Some(name) => {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        }
        None => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
    }
}
