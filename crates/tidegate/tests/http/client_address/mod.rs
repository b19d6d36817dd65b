//! The address of a client, which no client can forge. Cases are tables of text, so that a row is a case.

mod forged;
mod forwarded;
mod keys;
mod random_lists;
mod read_bounds;
#[cfg(feature = "config")]
mod settings;
mod single_address;
mod warning;
mod x_forwarded_for;

use std::net::IpAddr;

use tidegate::http::{ClientAddress, HeaderMap, HeaderName, TrustProxy};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Parses `nobody` for none, a number of hops, or networks with spaces between them.
fn trusting(trust: &str) -> TrustProxy {
    match trust.parse::<u8>() {
        Ok(hops) => TrustProxy::hops(hops),
        Err(_) if trust == "nobody" => TrustProxy::None,
        Err(_) => TrustProxy::networks(trust.split(' ')).unwrap(),
    }
}

fn reading(header: &'static str, trust: &str) -> ClientAddress {
    ClientAddress::new().trust(trusting(trust)).header(HeaderName::from_static(header))
}

/// Returns a request's headers with these lines of one header, or `None` if HTTP itself rejects them.
fn headers<L: AsRef<[u8]>>(header: &'static str, lines: &[L]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(header, http::HeaderValue::from_bytes(line.as_ref()).ok()?);
    }
    Some(headers)
}

/// Checks each row of a table: name, trust, peer, the header's lines, the expected client, and the reason.
///
/// Lines of the header have ` // ` between them; `-` is no line, `<empty>` an empty one, `<tab>` a tab.
fn assert_cases(header: &'static str, table: &str) {
    let rows: Vec<&str> = table.lines().map(str::trim).filter(|row| !row.is_empty() && !row.starts_with('#')).collect();
    let wrong: Vec<String> = rows.iter().filter_map(|row| check_case(header, row)).collect();
    assert!(wrong.is_empty(), "{} of {} cases of {header}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    let names: std::collections::HashSet<_> = rows.iter().map(|row| row.split(" | ").next()).collect();
    assert_eq!(names.len(), rows.len(), "a name twice");
}

/// Checks a row, and returns the mistake if there is one.
fn check_case(header: &'static str, row: &str) -> Option<String> {
    let cells: Vec<&str> = row.split(" | ").map(|cell| cell.trim_matches(' ')).collect();
    let [name, trust, peer, lines, expected, why] = cells[..] else { panic!("six cells: {row}") };
    let lines: Vec<String> = match lines {
        "-" => Vec::new(),
        lines => lines.split(" // ").map(|line| line.replace("<empty>", "").replace("<tab>", "\t")).collect(),
    };
    let clients = reading(header, trust);
    let found = clients.find(ip(peer), &headers(header, &lines).expect("a header")).address();
    let in_lines = clients.find_in_lines(ip(peer), lines.iter().map(String::as_bytes)).address();
    assert_eq!(found, in_lines, "{name}");
    // Other headers are present, and are not read.
    let mut others = headers(header, &lines).expect("a header");
    for other in ["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip"] {
        if other != header {
            others.insert(other, if other == "forwarded" { "for=6.6.6.6" } else { "6.6.6.6" }.parse().unwrap());
        }
    }
    assert_eq!(found, clients.find(ip(peer), &others).address(), "{name}: another header was read");
    (found != ip(expected)).then(|| format!("  {name}: found {found}, expected {expected}: {why}"))
}
