//! Forged header entries in front of those that proxies add.

use std::net::IpAddr;

use tidegate::http::ClientAddress;
use tidegate_testkit::Random;

use super::random_lists::{address, element, entry, lines};
use super::{headers, ip, reading};

const CASES: u64 = 200_000;
const HEADERS: [&str; 3] = ["x-forwarded-for", "forwarded", "x-real-ip"];

/// Pieces that an attacker would try, and random bytes.
fn random_bytes(random: &mut Random) -> Vec<u8> {
    const PIECES: [&str; 24] = [
        "\"",
        "\\",
        ",",
        ";",
        "=",
        " ",
        "\t",
        "for=",
        "for=\"",
        "For=\"[",
        "host=\"",
        "6.6.6.6",
        "10.0.0.2",
        "[::1]:80",
        "::ffff:10.0.0.2",
        "for=10.0.0.2",
        "for=\"10.0.0.2\"",
        "unknown",
        "_hidden",
        "\\\"",
        "010.0.0.2",
        "%eth0",
        ":80",
        "ü",
    ];
    let mut bytes = Vec::new();
    for _ in 0..random.below(12) {
        match random.below(4) {
            0 => bytes.push(random.next() as u8),
            1 => bytes.push(random.between(0x20, 0x7e) as u8),
            _ => bytes.extend_from_slice(random.pick(&PIECES).as_bytes()),
        }
    }
    bytes
}

/// Finds the client in the lines. If HTTP accepts the lines, checks that a `HeaderMap` of them gives an equal client.
fn find_client(clients: &ClientAddress, header: &'static str, peer: IpAddr, lines: &[Vec<u8>]) -> IpAddr {
    let found = clients.find_in_lines(peer, lines.iter().map(Vec::as_slice)).address();
    if let Some(headers) = headers(header, lines) {
        assert_eq!(clients.find(peer, &headers).address(), found, "{lines:?}");
    }
    found
}

/// A header and the trust of a setup with `proxies` between client and program.
fn random_setup(random: &mut Random, proxies: u64) -> (&'static str, ClientAddress) {
    let header = random.pick(&HEADERS);
    let hops = proxies.to_string();
    let trust = if random.one_in(2) { "10.0.0.0/8 fd00::/8" } else { &hops };
    (header, reading(header, trust))
}

#[test]
fn forged_entries_do_not_change_the_client_address() {
    let mut random = Random::new(2);
    let mut as_http = 0_u64;
    for case in 0..CASES {
        let proxies = random.between(1, 4);
        let (header, clients) = random_setup(&mut random, proxies);
        let client = address(&mut random);
        // The outermost proxy adds the client, each further one the proxy before it; the last one is the peer.
        let mut added = vec![client];
        if header != "x-real-ip" {
            added.extend((1..proxies).map(|_| ip(random.pick(&["10.0.0.2", "10.255.255.255", "fd00::7"]))));
        }
        let write = if header == "forwarded" { element } else { entry };
        let written: Vec<_> = added.iter().map(|address| write(&mut random, *address).into_bytes()).collect();
        let forged: Vec<_> = (0..random.below(4)).map(|_| random_bytes(&mut random)).collect();
        as_http += u64::from(headers(header, &forged).is_some() && !forged.is_empty());
        let lines = lines(&mut random, forged.into_iter().chain(written));
        let found = find_client(&clients, header, ip("10.0.0.1"), &lines);
        let text = || lines.iter().map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>();
        assert_eq!(found, client, "case {case}: {clients:?} {:?}", text());
    }
    assert!(as_http > CASES / 10, "{as_http} cases came through HTTP's own type");
}

#[test]
fn untrusted_peer_is_the_client_despite_its_headers() {
    let mut random = Random::new(3);
    for _ in 0..CASES / 4 {
        let header = random.pick(&HEADERS);
        let clients = reading(header, random.pick(&["nobody", "10.0.0.0/8 fd00::/8"]));
        let peer = address(&mut random);
        let lines: Vec<_> = (0..random.below(4)).map(|_| random_bytes(&mut random)).collect();
        assert_eq!(find_client(&clients, header, peer, &lines), peer, "{lines:?}");
    }
}

#[test]
fn arbitrary_bytes_never_panic() {
    let mut random = Random::new(4);
    for _ in 0..CASES {
        let header = random.pick(&HEADERS);
        let clients = reading(header, random.pick(&["1", "3", "255", "10.0.0.0/8", "0.0.0.0/0 ::/0"]));
        let lines: Vec<_> = (0..random.below(4)).map(|_| random_bytes(&mut random)).collect();
        let found = find_client(&clients, header, ip("10.0.0.1"), &lines);
        assert_eq!(found, found.to_canonical(), "IPv4 in IPv6: {lines:?}");
    }
}
