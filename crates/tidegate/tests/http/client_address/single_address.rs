//! A header that is one address, which a proxy or a platform sets.

use tidegate::http::{ClientAddress, HeaderName};

use super::assert_cases;
use super::{headers, ip};

const TABLE: &str = "
nobody trusted           | nobody     | 203.0.113.9 | 6.6.6.6                   | 203.0.113.9  | configured, and still not believed
untrusted peer           | 10.0.0.0/8 | 203.0.113.9 | 6.6.6.6                   | 203.0.113.9  | configured, but the peer is a client
next to the network      | 10.0.0.0/8 | 11.0.0.0    | 6.6.6.6                   | 11.0.0.0     | configured, but the peer is outside
trusted peer             | 10.0.0.0/8 | 10.0.0.1    | 203.0.113.9               | 203.0.113.9  | the proxy set it
platform                 | 1          | 198.51.100.1 | 203.0.113.9              | 203.0.113.9  | whatever the peer's address
client in the network    | 10.0.0.0/8 | 10.0.0.1    | 10.0.0.7                  | 10.0.0.7     | the client, not a proxy to look behind
not set                  | 10.0.0.0/8 | 10.0.0.1    | -                         | 10.0.0.1     | the proxy itself asks
not an address           | 10.0.0.0/8 | 10.0.0.1    | unknown                   | 10.0.0.1     | the peer was the last good one
leading zero             | 10.0.0.0/8 | 10.0.0.1    | 203.0.113.09              | 10.0.0.1     | programs disagree what that is
with a port              | 10.0.0.0/8 | 10.0.0.1    | 203.0.113.9:4711          | 203.0.113.9  | a new port is no new client
IPv6 with a port         | 10.0.0.0/8 | 10.0.0.1    | [2001:db8::17]:4711       | 2001:db8::17 | a new port is no new client
mapped                   | 10.0.0.0/8 | 10.0.0.1    | ::ffff:203.0.113.9        | 203.0.113.9  | IPv4 in IPv6 is IPv4
spoofed line             | 10.0.0.0/8 | 10.0.0.1    | 6.6.6.6 // 203.0.113.9    | 203.0.113.9  | a proxy that adds does so at the end
spoofed entry            | 10.0.0.0/8 | 10.0.0.1    | 6.6.6.6, 203.0.113.9      | 203.0.113.9  | a proxy that adds does so at the end
spoofed, in the network  | 10.0.0.0/8 | 10.0.0.1    | 6.6.6.6, 10.0.0.7         | 10.0.0.7     | one address, whatever is left of it
several hops             | 3          | 10.0.0.1    | 6.6.6.6, 203.0.113.9      | 203.0.113.9  | one address, however many hops
malformed at the end     | 10.0.0.0/8 | 10.0.0.1    | 6.6.6.6 // nonsense       | 10.0.0.1     | the walk does not jump over it
empty line at the end    | 10.0.0.0/8 | 10.0.0.1    | 6.6.6.6 // <empty>        | 10.0.0.1     | the walk does not jump over it
";

#[test]
fn single_address_header_is_believed_from_trusted_peers_only() {
    for header in ["x-real-ip", "cf-connecting-ip", "true-client-ip"] {
        assert_cases(header, TABLE);
    }
}

#[test]
fn platform_is_one_trusted_hop() {
    let clients = ClientAddress::set_by_platform(HeaderName::from_static("fly-client-ip"));
    let headers = headers("fly-client-ip", &["203.0.113.9"]).unwrap();
    assert_eq!(clients.find(ip("198.51.100.1"), &headers).address(), ip("203.0.113.9"));
    assert_eq!(clients.header_name(), "fly-client-ip");
    assert!(clients.trusts(ip("198.51.100.1")));
}
