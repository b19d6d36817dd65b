//! Forwarding headers: `X-Forwarded-For` and `Forwarded` (RFC 7239), read from the right.
//!
//! A client could open a quoted text and not close it. A reader from the left would then take everything that the
//! proxies add for a part of that text. A reader from the right meets the client's text last, after all text of the
//! proxies.

use std::net::IpAddr;

use crate::net::parse_address;

/// The maximum length of an entry, more than an address with a zone and a port needs. A longer entry is not an address.
const MAX_ENTRY_LEN: usize = 128;

/// Returns the entries of a comma-separated line, from the right. `None` is an entry that is not an address. An empty
/// entry is not an address.
pub(super) fn listed_addresses(line: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    line.rsplit(|byte| *byte == b',').map(|entry| address(entry.trim_ascii()))
}

/// Parses an address, with an optional port and zone: `203.0.113.9:4711` and `[2001:db8::17%eth0]:4711` are addresses,
/// too.
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
        // A single colon precedes a port: an IPv6 address has at least two.
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

/// Returns whether a text is a port, or a name for one in RFC 7239: `_` and letters.
fn is_port(port: &str) -> bool {
    match port.strip_prefix('_') {
        Some(name) => {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        }
        None => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
    }
}

/// Returns the `for` addresses of a line of `Forwarded`, from the right. `None` is an element without an address.
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

/// Returns whether the byte after these bytes of a quoted text is escaped.
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
        // With two `for` parameters, neither can be trusted.
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
    /// The text between the quotes, with its escapes.
    Quoted(&'a [u8]),
}

/// Splits off the first parameter of `text`. Returns its name, its value and the rest, which is empty or begins with a
/// semicolon.
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
