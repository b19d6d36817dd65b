//! Forwarding headers.

use std::net::IpAddr;

use tidegate::Key;
use tidegate::http::{Client, ClientAddress, HeaderName, TrustProxy};

use super::take;

/// Whatever stands in a forwarding header: nothing panics, an untrusted peer is the client, and what the client itself
/// writes, which is all on the left, does not change who it is.
///
/// A byte for whom to trust, one for the header, and lines: the peer's address, what the client writes, and what the
/// proxies do.
pub fn forwarding(data: &[u8]) {
    let (trust, data) = take(data);
    let (header, data) = take(data);
    let mut lines = data.split(|byte| *byte == b'\n');
    let peer = lines.next().and_then(|line| str::from_utf8(line).ok()?.parse().ok());
    let peer: IpAddr = peer.unwrap_or(IpAddr::from([10, 0, 0, 1]));
    let (forged, written) = (lines.next().unwrap_or_default(), lines.collect::<Vec<_>>());

    let hops = trust % 4;
    let trust = match trust {
        b'n' => TrustProxy::Nobody,
        b'h' => TrustProxy::hops(hops),
        _ => TrustProxy::networks(["10.0.0.0/8", "2001:db8::/32", "::1"]).expect("networks"),
    };
    let by_network = matches!(trust, TrustProxy::Networks(_));
    let header = match header {
        b'f' => "forwarded",
        b'o' => "x-real-ip",
        _ => "x-forwarded-for",
    };
    let clients = ClientAddress::new().trust(trust).header(HeaderName::from_static(header));

    let found = clients.find_in_lines(peer, written.iter().copied());
    assert_eq!(found.address(), found.address().to_canonical(), "IPv4 in IPv6 is IPv4");
    assert_eq!(found.key(), Key::from_parts([&*found.text()]), "one client, two keys");
    if !clients.trusts(peer) {
        assert_eq!(found.address(), peer.to_canonical(), "nobody believes this peer");
    }

    let with_forged: Vec<&[u8]> = [forged].into_iter().chain(written.iter().copied()).collect();
    let believed = clients.find_in_lines(peer, with_forged.iter().copied());
    // The walk ended at somebody who is not believed: in front of that, nothing is read.
    if by_network && !clients.trusts(found.address()) {
        assert_eq!(believed, found, "the client has chosen who it is");
    }
    let same = |first: Client, second: Client| assert_eq!(first, second, "the same headers, another client");
    same(believed, clients.find_in_lines(peer, with_forged));
}
