//! The key of a client.

use tidegate::http::{Client, ClientAddress, HeaderMap};
use tidegate::{Key, Limit, Limiter, Network, Normalize, Quota, Reason, days};

use super::{headers, ip, reading};

fn client(prefix: u8, address: &str) -> Client {
    ClientAddress::new().ipv6_prefix(prefix).find(ip(address), &HeaderMap::new())
}

#[test]
fn ipv4_key_is_the_address_and_ipv6_key_is_its_prefix() {
    let cases = [
        (64, "203.0.113.9", "203.0.113.9"),
        (1, "203.0.113.9", "203.0.113.9"),
        (0, "203.0.113.9", "203.0.113.9"),
        (64, "::ffff:203.0.113.9", "203.0.113.9"),
        (64, "2001:db8::17", "2001:db8::/64"),
        (64, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        (56, "2001:db8:1:2ff:3:4:5:6", "2001:db8:1:200::/56"),
        (48, "2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
        (65, "2001:db8::8000:0:0:1", "2001:db8:0:0:8000::/65"),
        (127, "2001:db8:1111:2222:3333:4444:5555:6667", "2001:db8:1111:2222:3333:4444:5555:6666/127"),
        (128, "2001:db8::17", "2001:db8::17"),
        (255, "2001:db8::17", "2001:db8::17"),
        (0, "2001:db8::17", "::/0"),
        (64, "::1", "::/64"),
    ];
    for (prefix, address, text) in cases {
        let client = client(prefix, address);
        assert_eq!(&*client.text(), text, "{address} at {prefix}");
        assert_eq!(client.text().to_string(), text);
        assert_eq!(client.key(), Key::from(text), "{address} at {prefix}");
        assert_eq!(Key::from(("login", &*client.text())), Key::from(("login", text)));
    }
    assert_eq!(ClientAddress::new().find(ip("2001:db8::17"), &HeaderMap::new()).key(), Key::from("2001:db8::/64"));
}

#[test]
fn deny_lists_see_the_whole_address() {
    let denied: Network = "2001:db8::17".parse().unwrap();
    let neighbour = client(64, "2001:db8::18");
    let client = client(64, "2001:db8::17");
    assert_eq!(client.key(), neighbour.key());
    assert_eq!(client.address(), ip("2001:db8::17"));
    assert!(denied.contains(client.address()) && !denied.contains(neighbour.address()));

    // Deny lists match the whole address, before the limit shortens it.
    let limit = Limit::new(Quota::fixed_window(1, days(300)).unwrap()).normalize(Normalize::Ip { ipv6_prefix: 64 });
    let limiter = Limiter::builder().limit("api", limit.deny(["2001:db8::17"]).unwrap()).build().unwrap();
    let ask = |client: Client| limiter.limit("api", client.address()).try_now().unwrap();
    assert_eq!(ask(client).reason(), Some(Reason::Deny));
    assert!(ask(neighbour).allowed());
    assert_eq!(ask(super::keys::client(64, "2001:db8::19")).reason(), Some(Reason::Rate));
}

#[test]
fn neighbours_share_a_key_up_to_the_prefix() {
    let one = u128::from_be_bytes([0x20, 1, 0xd, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let key = |prefix, bits: u128| client(prefix, &std::net::Ipv6Addr::from_bits(bits).to_string()).key();
    for prefix in [1, 32, 47, 48, 56, 63, 64, 65, 96, 127, 128] {
        for bit in 0..128 {
            let neighbour = one ^ (1 << (127 - bit));
            let shares = key(prefix, one) == key(prefix, neighbour);
            assert_eq!(shares, bit >= u32::from(prefix), "bit {bit} at /{prefix}");
        }
    }
}

#[test]
fn ports_brackets_and_zones_do_not_change_the_key() {
    let found = |line: &str| {
        reading("x-forwarded-for", "1").find(ip("10.0.0.1"), &headers("x-forwarded-for", &[line]).unwrap())
    };
    for line in
        ["2001:db8::1", "[2001:db8::2]:80", "[2001:DB8::3%eth0]:81", "2001:db8:0:0:ffff::", "6.6.6.6, 2001:db8::"]
    {
        assert_eq!(found(line).key(), Key::from("2001:db8::/64"), "{line}");
    }
    for line in ["203.0.113.9", "203.0.113.9:80", "::ffff:203.0.113.9", "[::ffff:cb00:7109]:81"] {
        assert_eq!(found(line).key(), Key::from("203.0.113.9"), "{line}");
    }
}
