//! Normalization: different spellings of a key count as one.

use std::net::IpAddr;

use tidegate::{Key, Limit, Limiter, Normalize};

use crate::support::{bucket, builder, clock, decide, left};

fn limiter_with_normalization(normalize: Normalize) -> Limiter {
    let limit = Limit::new(bucket(100)).normalize(normalize);
    builder(&clock()).limit("login", limit).limit("raw", bucket(100)).build().unwrap()
}

/// Returns whether two keys share a quota.
fn share_a_quota<'a>(limiter: &'a Limiter, one: impl Into<Key<'a>>, other: impl Into<Key<'a>>) -> bool {
    let (one, other) = (one.into(), other.into());
    let _ = decide(limiter.reset("login", &one));
    let _ = decide(limiter.reset("login", &other));
    let _ = decide(limiter.limit("login", &one).cost(7));
    match left(limiter, "login", &other) {
        93 => true,
        100 => false,
        left => panic!("{one:?} and {other:?}: {left}"),
    }
}

#[test]
fn lowercase_joins_spellings() {
    let limiter = limiter_with_normalization(Normalize::Lowercase);
    for (one, other) in [("Alice", "alice"), ("ALICE", "aLiCe"), ("ÄÖ|%", "äö|%"), ("ΑΒ", "αβ"), ("", "")] {
        assert!(share_a_quota(&limiter, one, other), "{one} {other}");
    }
    assert!(share_a_quota(&limiter, ("Tenant", "Alice"), ("tenant", "ALICE")));
    for (one, other) in [("alice", "alice "), ("a|b", "ab"), ("alice", "bob")] {
        assert!(!share_a_quota(&limiter, one, other), "{one} {other}");
    }
    assert!(!share_a_quota(&limiter, ("A", "B"), "a|b"), "parts stay parts");
}

#[test]
fn trim_removes_space_around_every_part() {
    let limiter = limiter_with_normalization(Normalize::Trim);
    for (one, other) in [(" alice\t", "alice"), ("\u{a0}alice\n", "alice"), ("   ", ""), ("a b ", " a b")] {
        assert!(share_a_quota(&limiter, one, other), "{one:?} {other:?}");
    }
    assert!(share_a_quota(&limiter, (" t ", "u"), ("t", " u")));
    for (one, other) in [("a b", "ab"), ("Alice", "alice")] {
        assert!(!share_a_quota(&limiter, one, other), "{one:?} {other:?}");
    }
    assert!(!share_a_quota(&limiter, "  ", Key::GLOBAL), "an empty part is still a part");
}

#[test]
fn ip_joins_spellings_of_an_address() {
    let limiter = limiter_with_normalization(Normalize::Ip { ipv6_prefix: 64 });
    let same = [
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:c000:201", "192.0.2.1"),
        ("[192.0.2.1]", "192.0.2.1"),
        ("2001:db8::1", "2001:DB8:0:0:ffff:ffff:ffff:ffff"),
        ("[2001:db8::1]", "2001:db8::2%eth0"),
    ];
    for (one, other) in same {
        assert!(share_a_quota(&limiter, one, other), "{one} {other}");
    }
    let address: IpAddr = "2001:db8::9".parse().unwrap();
    assert!(share_a_quota(&limiter, address, "2001:db8::8"));
    assert!(share_a_quota(&limiter, ("tenant", "2001:db8::8"), ("tenant", address)));
    let different = [
        ("192.0.2.1", "192.0.2.2"),
        ("2001:db8:0:1::", "2001:db8::"),
        ("2001:db8::", "2001:db8::x"),
        ("192.0.2.01", "192.0.2.1"),
        ("Host", "host"),
        ("::192.0.2.1", "192.0.2.1"),
    ];
    for (one, other) in different {
        assert!(!share_a_quota(&limiter, one, other), "{one} {other}");
    }
}

#[test]
fn ipv6_address_is_truncated_at_any_bit() {
    // The longest prefix at which two addresses with one different bit are still one client.
    let first: u128 = 0x2001_0db8_0000_0000_0000_0000_0000_0000;
    for ipv6_prefix in [0_u8, 1, 47, 48, 56, 63, 64, 65, 127, 128, 200, 255] {
        let limiter = limiter_with_normalization(Normalize::Ip { ipv6_prefix });
        for bit in [0_u32, 1, 46, 47, 48, 55, 56, 62, 63, 64, 65, 126, 127] {
            let address = |bits: u128| IpAddr::from(bits.to_be_bytes());
            let outside = bit >= u32::from(ipv6_prefix);
            let (one, other) = (address(first), address(first ^ 1 << (127 - bit)));
            assert_eq!(share_a_quota(&limiter, one, other), outside, "bit {bit} of {ipv6_prefix}");
        }
        assert!(!share_a_quota(&limiter, "192.0.2.1", "192.0.2.3"), "an IPv4 address stays whole");
    }
}

#[test]
fn normalization_applies_to_one_limit_only() {
    let limiter = limiter_with_normalization(Normalize::Lowercase);
    let _ = decide(limiter.limit("raw", "Alice"));
    assert_eq!((left(&limiter, "raw", "Alice"), left(&limiter, "raw", "alice")), (99, 100));
}

#[test]
fn every_operation_normalizes_its_key() {
    let limiter = limiter_with_normalization(Normalize::Lowercase);
    assert_eq!(decide(limiter.limit("login", "Alice").cost(50)).remaining(), 50);
    assert_eq!(decide(limiter.reserve("login", "ALICE").cost(60)).remaining(), 0);
    assert!(!decide(limiter.limit("login", "alicE")).allowed());
    assert_eq!(decide(limiter.refund("login", "aLICE").cost(40)).remaining(), 30);
    assert_eq!(limiter.limit("login", "AliCe").try_now().unwrap().remaining(), 29);
    assert_eq!(decide(limiter.reset("login", "alIce")).remaining(), 100);
}

#[test]
fn normalized_key_equals_the_plain_key_in_the_store() {
    // The store has the normalised keys, so programs that share it must agree on them.
    let limiter = limiter_with_normalization(Normalize::Lowercase);
    let _ = decide(limiter.limit("login", "ALICE").cost(7));
    limiter.replace("login", bucket(100).into()).unwrap();
    assert_eq!((left(&limiter, "login", "alice"), left(&limiter, "login", "ALICE")), (93, 100));
}
