//! Deny lists: checked before anything is spent.

use std::net::{IpAddr, Ipv6Addr};

use tidegate::{Key, Limit, Limiter, Normalize, Reason, StoreError, StoreErrorKind, millis};
use tidegate_testkit::{FaultyStore, block_on};

use crate::support::{bucket, builder, clock, decide, left, limit_all, memory};

fn limiter_with_deny_list(entries: &[&str]) -> Limiter {
    let limit = Limit::new(bucket(100)).deny(entries).unwrap();
    builder(&clock()).limit("login", limit).limit("other", bucket(100)).build().unwrap()
}

fn is_denied<'a>(limiter: &'a Limiter, key: impl Into<Key<'a>>) -> bool {
    let decision = decide(limiter.limit("login", key));
    assert_eq!(decision.reason(), (!decision.allowed()).then_some(Reason::Deny));
    !decision.allowed()
}

#[test]
fn denial_by_list_has_no_retry_and_no_remaining_units() {
    let limiter = limiter_with_deny_list(&["mallory"]);
    let decisions = [
        decide(limiter.limit("login", "mallory")),
        decide(limiter.check("login", "mallory")),
        decide(limiter.reserve("login", "mallory").cost(2)),
        decide(limiter.acquire("login", "mallory", millis(60_000))),
        limiter.limit("login", "mallory").try_now().unwrap(),
    ];
    for decision in decisions {
        assert!(!decision.allowed());
        assert_eq!(decision.reason(), Some(Reason::Deny));
        assert_eq!((decision.limit(), decision.remaining()), (100, 0));
        assert_eq!((decision.retry_after(), decision.next_after()), (None, None));
    }
}

/// The key of a limit can have less than the client's known data.
#[test]
fn whole_key_is_matched_like_the_key() {
    for (normalize, is_found) in [(None, false), (Some(Normalize::Lowercase), true)] {
        let limit = Limit::new(bucket(100)).deny(["mallory", "203.0.113.0/24"]).unwrap();
        let limit = normalize.map_or(limit.clone(), |normalize| limit.normalize(normalize));
        let limiter = builder(&clock()).limit("login", limit).build().unwrap();
        let asked = |whole: Key<'static>| decide(limiter.limit("login", "shared").whole_key(&whole)).reason();
        assert_eq!(asked(Key::from("alice")), None);
        assert_eq!(asked(Key::from("mallory")), Some(Reason::Deny));
        assert_eq!(asked(Key::from(("api", "203.0.113.9"))), Some(Reason::Deny));
        assert_eq!(asked(Key::from("Mallory")).is_some(), is_found);
    }
}

#[test]
fn denied_key_calls_no_store_and_takes_nothing() {
    let store = FaultyStore::new(memory(&clock()));
    let faults = store.faults();
    let limit = Limit::new(bucket(3)).deny(["mallory"]).unwrap();
    let limiter = Limiter::builder().limit("login", limit).bare_store(store).sleeper(clock()).build().unwrap();
    for _ in 0..10 {
        assert!(is_denied(&limiter, "mallory"));
        assert!(!decide(limiter.reserve("login", "mallory")).allowed());
        assert!(!decide(limiter.acquire("login", "mallory", millis(1))).allowed());
    }
    assert_eq!(faults.calls().decisions(), 0);
    // Off the list, the key has its whole capacity.
    limiter.replace("login", bucket(3).into()).unwrap();
    assert_eq!(left(&limiter, "login", "mallory"), 3);
}

#[test]
fn denied_key_can_be_refunded_and_reset() {
    let limiter = limiter_with_deny_list(&[]);
    let _ = decide(limiter.limit("login", "mallory").cost(50));
    limiter.replace("login", Limit::new(bucket(100)).deny(["mallory"]).unwrap()).unwrap();
    assert_eq!(decide(limiter.refund("login", "mallory").cost(20)).remaining(), 70);
    assert_eq!(decide(limiter.reset("login", "mallory")).remaining(), 100);
    assert!(is_denied(&limiter, "mallory"));
}

#[test]
fn deny_list_of_a_limit_applies_to_that_limit_only() {
    let limiter = limiter_with_deny_list(&["mallory", "203.0.113.0/24"]);
    for key in ["mallory", "203.0.113.9"] {
        assert!(is_denied(&limiter, key));
        assert!(decide(limiter.limit("other", key)).allowed());
    }
}

#[test]
fn deny_list_of_the_builder_applies_to_every_limit() {
    let limiter = builder(&clock())
        .limit("login", bucket(2))
        .limit("other", Limit::new(bucket(2)).deny(["bob"]).unwrap())
        .deny_all(["mallory"])
        .unwrap()
        .deny_all(["203.0.113.0/24"])
        .unwrap()
        .build()
        .unwrap();
    for name in ["login", "other"] {
        for key in ["mallory", "203.0.113.9"] {
            assert_eq!(decide(limiter.limit(name, key)).reason(), Some(Reason::Deny), "{name} {key}");
        }
        assert_eq!(decide(limiter.limit(name, "bob")).allowed(), name == "login");
        assert!(decide(limiter.limit(name, "alice")).allowed());
        // It is the limiter's, and stays when a limit is replaced.
        limiter.replace(name, bucket(5).into()).unwrap();
        assert_eq!(decide(limiter.limit(name, "mallory")).reason(), Some(Reason::Deny));
    }
}

#[test]
fn deny_lists_of_limit_and_builder_are_combined() {
    let limiter = builder(&clock())
        .limit("login", Limit::new(bucket(9)).deny(["a"]).unwrap().deny(["b"]).unwrap())
        .deny("login", ["c"])
        .unwrap()
        .deny("login", ["192.0.2.1"])
        .unwrap()
        .build()
        .unwrap();
    for key in ["a", "b", "c", "192.0.2.1"] {
        assert!(is_denied(&limiter, key), "{key}");
    }
    assert!(!is_denied(&limiter, "d"));
    // Another quota keeps the list.
    limiter.set_quota("login", bucket(5)).unwrap();
    assert!(is_denied(&limiter, "a") && is_denied(&limiter, "c"));
}

#[test]
fn deny_list_matches_whole_keys_only() {
    let limiter = limiter_with_deny_list(&["mallory", "42", "a|b", "50%"]);
    for key in ["mallory", "42", "a|b", "50%"] {
        assert!(is_denied(&limiter, key), "{key}");
    }
    assert!(is_denied(&limiter, 42_u64));
    for key in ["mallory ", " mallory", "Mallory", "mallor", "mallory|x", "4", "420", "a", "b", "50", ""] {
        assert!(!is_denied(&limiter, key), "{key:?}");
    }
    assert!(!is_denied(&limiter, ("a", "b")));
    assert!(!is_denied(&limiter, ("mallory", "x")));
    assert!(!is_denied(&limiter, Key::GLOBAL));
}

#[test]
fn network_denies_exactly_its_addresses() {
    let cases = [
        ("203.0.113.0/24", ["203.0.113.0", "203.0.113.255"], ["203.0.112.255", "203.0.114.0"]),
        ("203.0.113.77/24", ["203.0.113.0", "203.0.113.255"], ["203.0.112.255", "203.0.114.0"]),
        ("203.0.113.128/25", ["203.0.113.128", "203.0.113.255"], ["203.0.113.127", "203.0.114.0"]),
        ("203.0.113.6/31", ["203.0.113.6", "203.0.113.7"], ["203.0.113.5", "203.0.113.8"]),
        ("203.0.113.7/32", ["203.0.113.7", "::ffff:203.0.113.7"], ["203.0.113.6", "203.0.113.8"]),
        ("198.51.100.7", ["198.51.100.7", "::ffff:c633:6407"], ["198.51.100.70", "::198.51.100.7"]),
        ("128.0.0.0/1", ["128.0.0.0", "255.255.255.255"], ["127.255.255.255", "ffff::"]),
        ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "::1"]),
        ("2001:db8::/32", ["2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"], ["2001:db7:ffff::", "2001:db9::"]),
        ("2001:db8::/127", ["2001:db8::", "2001:db8::1"], ["2001:db8::2", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff"]),
        ("2001:db8::5", ["2001:db8::5", "2001:0DB8:0:0:0:0:0:5"], ["2001:db8::4", "2001:db8::6"]),
        ("::/0", ["::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], ["0.0.0.0", "255.255.255.255"]),
        ("::ffff:203.0.113.0/120", ["203.0.113.0", "::ffff:203.0.113.255"], ["203.0.112.255", "203.0.114.0"]),
        ("::ffff:203.0.113.9", ["203.0.113.9", "::ffff:203.0.113.9"], ["203.0.113.8", "::203.0.113.9"]),
    ];
    for (network, inside, outside) in cases {
        let limiter = limiter_with_deny_list(&[network]);
        for key in inside {
            assert!(is_denied(&limiter, key), "{key} is in {network}");
            assert!(is_denied(&limiter, ("tenant", key)), "{key} as a part is in {network}");
        }
        for key in outside {
            assert!(!is_denied(&limiter, key), "{key} is not in {network}");
        }
    }
}

#[test]
fn address_is_denied_in_every_spelling() {
    let limiter = limiter_with_deny_list(&["2001:db8::5", "192.0.2.1"]);
    for key in ["[2001:db8::5]", "2001:db8::5%eth0", "[2001:db8::5%1]", "2001:DB8::0005", "::FFFF:192.0.2.1"] {
        assert!(is_denied(&limiter, key), "{key}");
    }
    let addresses: [IpAddr; 3] =
        ["192.0.2.1".parse().unwrap(), "2001:db8::5".parse().unwrap(), Ipv6Addr::from_bits(0xffff_c000_0201).into()];
    for address in addresses {
        assert!(is_denied(&limiter, address), "{address}");
        assert!(is_denied(&limiter, ("tenant", 7_u64, address)), "{address}");
    }
    assert!(!is_denied(&limiter, "192.0.2.1:80"));
}

#[test]
fn malformed_network_entry_is_rejected() {
    for entry in ["203.0.113.0/33", "203.0.113.0/", "203.0.113.0/x", "203.0.113.0/-1", "2001:db8::/129", "::/ 0", ""] {
        assert!(Limit::new(bucket(1)).deny([entry]).is_err(), "{entry:?}");
        assert!(Limiter::builder().deny("a", [entry]).is_err(), "{entry:?}");
        assert!(Limiter::builder().deny_all(["fine", entry]).is_err(), "{entry:?}");
    }
}

#[test]
fn raw_and_normalized_keys_are_both_matched() {
    let lower = |entries: &[&str]| {
        let limit = Limit::new(bucket(100)).normalize(Normalize::Lowercase).deny(entries).unwrap();
        builder(&clock()).limit("login", limit).build().unwrap()
    };
    let limiter = lower(&["mallory"]);
    for key in ["mallory", "Mallory", "MALLORY"] {
        assert!(is_denied(&limiter, key), "{key}");
    }
    let limiter = lower(&["Mallory"]);
    assert!(is_denied(&limiter, "Mallory"), "the raw key");
    let prefix = Limit::new(bucket(100)).normalize(Normalize::Ip { ipv6_prefix: 64 });
    let limit = prefix.deny(["2001:db8::5", "2001:db8:1::", "::ffff:192.0.2.0/120"]).unwrap();
    let limiter = builder(&clock()).limit("login", limit).build().unwrap();
    assert!(is_denied(&limiter, "2001:db8::5"), "only the raw key has the last bits");
    assert!(!is_denied(&limiter, "2001:db8::6"));
    assert!(is_denied(&limiter, "2001:db8:1::77"), "only the normalised key is the network's first address");
    assert!(is_denied(&limiter, "192.0.2.200") && is_denied(&limiter, "::ffff:192.0.2.200"));
}

#[test]
fn deny_list_of_the_builder_matches_normalized_keys() {
    let limit = Limit::new(bucket(100)).normalize(Normalize::Trim);
    let limiter = builder(&clock()).limit("login", limit).deny_all(["mallory", "192.0.2.1"]).unwrap().build().unwrap();
    for key in ["mallory", " mallory\t", "192.0.2.1", " 192.0.2.1 "] {
        assert!(is_denied(&limiter, key), "{key:?}");
    }
    assert!(!is_denied(&limiter, "mal lory"));
}

#[test]
fn denied_key_in_a_joint_call_takes_nothing() {
    let store = FaultyStore::new(memory(&clock()));
    let faults = store.faults();
    let limiter = Limiter::builder()
        .limit("user", Limit::new(bucket(3)).deny(["mallory"]).unwrap())
        .limit("address", bucket(5))
        .bare_store(store)
        .build()
        .unwrap();
    let calls =
        || [limiter.limit("address", "x").cost(2), limiter.limit("user", "mallory"), limiter.limit("user", "bob")];
    for _ in 0..5 {
        let answer = limit_all(&limiter, calls());
        assert!(!answer.allowed());
        assert_eq!(answer.retry_after(), None);
        let [address, mallory, bob] = answer.decisions() else { panic!("{answer:?}") };
        // Limits that would have allowed the request report their quota.
        assert!(address.allowed() && address.remaining() == 5 && address.limit() == 5);
        assert!(!mallory.allowed() && mallory.reason() == Some(Reason::Deny) && mallory.retry_after().is_none());
        assert!(bob.allowed() && bob.remaining() == 3);
    }
    assert_eq!((left(&limiter, "address", "x"), left(&limiter, "user", "bob")), (5, 3));
    assert_eq!(faults.calls().apply_all, 0);
}

#[test]
fn joint_call_reports_other_denials_beside_a_denied_key() {
    let limiter = builder(&clock())
        .limit("user", Limit::new(bucket(3)).deny(["mallory"]).unwrap())
        .limit("address", bucket(1))
        .build()
        .unwrap();
    let _ = decide(limiter.limit("address", "x"));
    let answer = limit_all(&limiter, [limiter.limit("address", "x"), limiter.limit("user", "mallory")]);
    let reasons: Vec<_> = answer.decisions().iter().map(|decision| decision.reason()).collect();
    assert_eq!(reasons, [Some(Reason::Rate), Some(Reason::Deny)]);
    // A wait for the address does not help, because the other limit never allows it.
    assert_eq!(answer.retry_after(), None);
}

#[test]
fn joint_call_of_denied_keys_calls_no_store() {
    let store = FaultyStore::new(memory(&clock()));
    let faults = store.faults();
    let limiter =
        Limiter::builder().limit("user", bucket(3)).deny_all(["mallory"]).unwrap().bare_store(store).build().unwrap();
    let answer =
        block_on(limiter.limit_all([limiter.limit("user", "mallory"), limiter.limit("user", "mallory")])).unwrap();
    assert!(answer.decisions().iter().all(|decision| decision.reason() == Some(Reason::Deny)));
    assert_eq!(faults.calls().decisions(), 0);
}

#[test]
fn denied_key_is_denied_while_the_store_fails() {
    let store = FaultyStore::new(memory(&clock()));
    let faults = store.faults();
    let limiter = Limiter::builder()
        .limit("user", Limit::new(bucket(3)).deny(["mallory"]).unwrap())
        .limit("address", bucket(5))
        .limit("hot", Limit::new(bucket(10)).shards(2).unwrap())
        .bare_store(store)
        .build()
        .unwrap();
    faults.fail(StoreError::new(StoreErrorKind::Unavailable, "on command"));
    for place in 0..3 {
        let mut calls = vec![limiter.limit("address", "x"), limiter.limit("hot", "k")];
        calls.insert(place, limiter.limit("user", "mallory"));
        let answer = limit_all(&limiter, calls);
        assert!(!answer.allowed());
        let mut expected = vec![(5, Some(Reason::Store)), (10, Some(Reason::Store))];
        expected.insert(place, (3, Some(Reason::Deny)));
        let seen: Vec<_> = answer.decisions().iter().map(|decision| (decision.limit(), decision.reason())).collect();
        assert_eq!(seen, expected);
    }
    // All others are checked together.
    assert_eq!((faults.calls().apply_each, faults.calls().decisions()), (3, 3));
}

#[test]
fn shadow_mode_admits_a_denied_key_with_the_reason_and_takes_nothing() {
    let limit = Limit::new(bucket(3)).deny(["mallory"]).unwrap().shadow(true);
    let limiter = builder(&clock()).limit("login", limit).limit("other", bucket(5)).build().unwrap();
    for _ in 0..5 {
        let decision = decide(limiter.limit("login", "mallory"));
        assert!(decision.allowed());
        assert_eq!((decision.reason(), decision.retry_after()), (Some(Reason::Deny), None));
    }
    let answer = limit_all(&limiter, [limiter.limit("login", "mallory"), limiter.limit("other", "mallory")]);
    assert!(answer.allowed());
    assert_eq!(answer.decisions()[0].reason(), Some(Reason::Deny));
    assert_eq!(left(&limiter, "other", "mallory"), 4);
    limiter.replace("login", bucket(3).into()).unwrap();
    assert_eq!(left(&limiter, "login", "mallory"), 3);
}

#[test]
fn denial_by_list_reports_the_capacity() {
    let limiter = limiter_with_deny_list(&["mallory"]);
    assert_eq!(decide(limiter.limit("login", "mallory").with_quota(&bucket(7))).limit(), 7);
}
