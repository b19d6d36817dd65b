//! Forwarding headers.

use std::net::IpAddr;

use tidegate::Key;
use tidegate::http::{ClientAddress, HeaderName, TrustProxy};

use super::take;

/// Checks that no forwarding header panics, and that an untrusted peer is the client. The text from the client, which
/// is always on the left, must not change its identity.
///
/// The input is a byte for the trusted proxies (`n` for none, a number of hops, or networks), a byte for the header,
/// and lines. The lines are the peer's address, the client's text, and the proxies' additions.
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

    // The walk ended at an untrusted address, or after the trusted number of hops. Text before that is never read.
    let entries = || written.iter().flat_map(|line| line.split(|byte| *byte == b','));
    let is_address =
        |entry: &[u8]| str::from_utf8(entry.trim_ascii()).is_ok_and(|entry| entry.parse::<IpAddr>().is_ok());
    let counts_off = |hops| header == "x-forwarded-for" && entries().count() >= hops && entries().all(is_address);
    if (by_network && !clients.trusts(found.address())) || hops.is_some_and(counts_off) {
        // In a line of its own, and before the proxy's addition to the client's line.
        let own: Vec<&[u8]> = [forged].into_iter().chain(written.iter().copied()).collect();
        assert_eq!(clients.find_in_lines(peer, own), found, "the client has chosen who it is");
        if let [first, rest @ ..] = &written[..] {
            let first = [forged, first].join(&b", "[..]);
            let joined: Vec<&[u8]> = [&*first].into_iter().chain(rest.iter().copied()).collect();
            assert_eq!(clients.find_in_lines(peer, joined), found, "the client has chosen who it is");
        }
    }
}
