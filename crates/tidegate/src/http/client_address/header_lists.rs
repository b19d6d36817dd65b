//! Forwarding headers: `X-Forwarded-For` and `Forwarded` (RFC 7239), read from the right.
//!
//! A reader from the left could be made to take everything that the proxies add for a part of a quoted text that the
//! client has opened and not closed. From the right nothing that the client wrote is met before everything that the
//! proxies wrote has been read.

use std::net::IpAddr;

use crate::net::parse_address;

/// More than an address with a zone and a port has. A longer entry is not an address, and is not read.
const MAX_ENTRY_LEN: usize = 128;

/// The entries of a line with commas between them, from the right. `None` is one that is not an address; an empty
/// one is not.
pub(super) fn listed_addresses(line: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    line.rsplit(|byte| *byte == b',').map(|entry| address(entry.trim_ascii()))
}

/// An address without what may be around it: `203.0.113.9:4711` and `[2001:db8::17%eth0]:4711` are addresses too.
fn address(entry: &[u8]) -> Option<IpAddr> {
    if entry.len() > MAX_ENTRY_LEN || !entry.iter().all(u8::is_ascii_graphic) {
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

/// The `for` addresses of a line of `Forwarded`, from the right. `None` is an element without an address.
pub(super) fn forwarded_addresses(line: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    ElementsFromTheRight(Some(line)).map(for_address)
}

/// An iterator over the elements of a line, from the right.
struct ElementsFromTheRight<'a>(Option<&'a [u8]>);

impl<'a> Iterator for ElementsFromTheRight<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.0?;
        let mut quoted = false;
        let comma = (0..line.len()).rev().find(|&at| {
            match line[at] {
                b'"' if !quoted => quoted = true,
                b'"' => quoted = is_escaped(&line[..at]),
                _ => {}
            }
            line[at] == b',' && !quoted
        });
        self.0 = comma.map(|at| &line[..at]);
        Some(comma.map_or(line, |at| &line[at + 1..]))
    }
}

/// Whether what comes after these bytes of a quoted text is escaped.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Returns the address in the one `for` of an element.
fn for_address(element: &[u8]) -> Option<IpAddr> {
    let mut rest = element.trim_ascii();
    let mut found = None;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(b";") {
            rest = after.trim_ascii_start();
            continue;
        }
        let (name, value, after) = parameter(rest)?;
        // Two `for` parameters: neither can be trusted to be the client's.
        if name.eq_ignore_ascii_case(b"for") && found.replace(value.address()?).is_some() {
            return None;
        }
        rest = after;
    }
    found
}

/// The value of a parameter, as written.
enum ParameterValue<'a> {
    Plain(&'a [u8]),
    /// Without its quotes, with its escapes.
    Quoted(&'a [u8]),
}

/// The name and the value of the parameter that `text` begins with, and what follows: nothing, or a semicolon.
fn parameter(text: &[u8]) -> Option<(&[u8], ParameterValue<'_>, &[u8])> {
    let equals = text.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&text[..equals], &text[equals + 1..]);
    if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_graphic() && !b"\";".contains(byte)) {
        return None;
    }
    if let Some(text) = value.strip_prefix(b"\"") {
        let end = (0..text.len()).find(|&at| text[at] == b'"' && !is_escaped(&text[..at]))?;
        let after = text[end + 1..].trim_ascii_start();
        let ends = after.is_empty() || after.starts_with(b";");
        return ends.then_some((name, ParameterValue::Quoted(&text[..end]), after));
    }
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    let (value, after) = value.split_at(end);
    (!value.contains(&b'"')).then_some((name, ParameterValue::Plain(value.trim_ascii_end()), after))
}

impl ParameterValue<'_> {
    fn address(&self) -> Option<IpAddr> {
        let quoted = match self {
            ParameterValue::Plain(text) => return address(text),
            ParameterValue::Quoted(quoted) => quoted,
        };
        let mut text = [0; MAX_ENTRY_LEN];
        let mut len = 0;
        let mut bytes = quoted.iter();
        while let Some(byte) = bytes.next() {
            let byte = if *byte == b'\\' { bytes.next()? } else { byte };
            *text.get_mut(len)? = *byte;
            len += 1;
        }
        address(&text[..len])
    }
}
