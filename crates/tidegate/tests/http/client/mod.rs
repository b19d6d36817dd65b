//! The address of a client, which no client can forge.

mod forged;
mod forwarded;
mod keys;
mod limits;
mod lists;
mod one_address;
#[cfg(feature = "config")]
mod settings;
mod table;
mod warning;
mod x_forwarded_for;

use std::net::IpAddr;

use tidegate::http::{ClientAddress, HeaderMap, HeaderName, TrustProxy};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// `nobody`, a number of hops, or networks with spaces between them.
fn trusting(trust: &str) -> TrustProxy {
    match trust.parse::<u8>() {
        Ok(hops) => TrustProxy::hops(hops),
        Err(_) if trust == "nobody" => TrustProxy::Nobody,
        Err(_) => TrustProxy::networks(trust.split(' ')).unwrap(),
    }
}

fn reading(header: &'static str, trust: &str) -> ClientAddress {
    ClientAddress::new().trust(trusting(trust)).header(HeaderName::from_static(header))
}

/// A request's headers with these lines of one of them; `None` where HTTP itself refuses them.
fn headers<L: AsRef<[u8]>>(header: &'static str, lines: &[L]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(header, http::HeaderValue::from_bytes(line.as_ref()).ok()?);
    }
    Some(headers)
}
