//! Forwarding headers.

use std::net::IpAddr;

use tidegate::Key;
use tidegate::http::{ClientAddress, HeaderName, TrustProxy};

use super::take;

/// Whatever stands in a forwarding header: nothing panics, an untrusted peer is the client, and what the client itself
/// writes, which is all on the left, does not change who it is.
///
/// A byte for whom to trust (`n`obody, a number of hops, or networks), one for the header, and lines: the peer's address, what the client writes, and what the
/// proxies do.
pub fn forwarding(data: &[u8]) {
    let (trust, data) = take(data);
    let (header, data) = take(data);
    let mut lines = data.split(|byte| *byte == b'\n');
    let peer = lines.next().and_then(|line| str::from_utf8(line).ok()?.parse().ok());
    let peer: IpAddr = peer.unwrap_or(IpAddr::from([10, 0, 0, 1]));
    let (forged, written) = (lines.next().unwrap_or_default(), lines.collect::<Vec<_>>());

    let trust = match trust {
        b'n' => TrustProxy::None,
        b'1'..=b'3' => TrustProxy::hops(trust - b'0'),
        _ => TrustProxy::networks(["10.0.0.0/8", "2001:db8::/32", "::1"]).expect("networks"),
    };
    let hops = if let TrustProxy::Hops(hops) = trust { Some(usize::from(hops.get())) } else { None };
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

    // The walk ended at somebody who is not believed, or after so many steps as are: in front of that, nothing is read.
    let entries = || written.iter().flat_map(|line| line.split(|byte| *byte == b','));
    let is_address =
        |entry: &[u8]| str::from_utf8(entry.trim_ascii()).is_ok_and(|entry| entry.parse::<IpAddr>().is_ok());
    let counts_off = |hops| header == "x-forwarded-for" && entries().count() >= hops && entries().all(is_address);
    if (by_network && !clients.trusts(found.address())) || hops.is_some_and(counts_off) {
        // In a line of its own, and in front of what the proxy adds to the client's line.
        let own: Vec<&[u8]> = [forged].into_iter().chain(written.iter().copied()).collect();
        assert_eq!(clients.find_in_lines(peer, own), found, "the client has chosen who it is");
        if let [first, rest @ ..] = &written[..] {
            let first = [forged, first].join(&b", "[..]);
            let joined: Vec<&[u8]> = [&*first].into_iter().chain(rest.iter().copied()).collect();
            assert_eq!(clients.find_in_lines(peer, joined), found, "the client has chosen who it is");
        }
    }
}
