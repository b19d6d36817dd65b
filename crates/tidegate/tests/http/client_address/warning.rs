//! The warning about a proxy that is not trusted.

use std::sync::atomic::{AtomicU32, Ordering};

use tidegate::http::{ForwardingWarning, HeaderMap};

use super::{headers, ip, reading};

const FORWARDING: [&str; 5] = ["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip", "true-client-ip"];

#[test]
fn forwarding_header_of_an_untrusted_peer_is_noticed_once() {
    for header in FORWARDING {
        for (trust, peer) in [("nobody", "10.0.0.1"), ("10.0.0.0/8", "192.0.2.1"), ("10.0.0.0/8", "11.0.0.0")] {
            let warning = ForwardingWarning::new();
            let clients = reading("x-forwarded-for", trust);
            let headers = headers(header, &["203.0.113.9"]).unwrap();
            let noticed = warning.notice(&clients, ip(peer), &headers).expect(header);
            noticed.log();
            let message = noticed.to_string();
            assert!(message.contains(header) && message.contains(peer) && message.contains("trust_proxy"), "{message}");
            assert!(!message.contains("203.0.113.9"), "what a client sent is not logged");
            for _ in 0..3 {
                assert_eq!(warning.notice(&clients, ip(peer), &headers), None, "said once");
            }
        }
    }
}

#[test]
fn correct_setup_does_not_warn() {
    let warning = ForwardingWarning::default();
    let forwarded = headers("x-forwarded-for", &["203.0.113.9"]).unwrap();
    let quiet = [
        ("1", "192.0.2.1", &forwarded),
        ("10.0.0.0/8", "10.0.0.1", &forwarded),
        ("10.0.0.0/8", "::ffff:10.0.0.1", &forwarded),
        ("nobody", "203.0.113.9", &HeaderMap::new()),
        ("nobody", "203.0.113.9", &headers("user-agent", &["x-forwarded-for"]).unwrap()),
    ];
    for (trust, peer, headers) in quiet {
        assert_eq!(warning.notice(&reading("x-forwarded-for", trust), ip(peer), headers), None, "{trust}, {peer}");
    }
    // None of these used up the one warning.
    assert!(warning.notice(&reading("x-forwarded-for", "nobody"), ip("10.0.0.1"), &forwarded).is_some());
}

#[test]
fn only_the_first_hundred_thousand_requests_are_checked() {
    let (clients, plain) = (reading("x-forwarded-for", "10.0.0.0/8"), HeaderMap::new());
    let forwarded = headers("x-forwarded-for", &["203.0.113.9"]).unwrap();
    let (trusted, other) = (ip("10.0.0.1"), ip("192.0.2.1"));
    for (peer, requests, is_noticed) in [(other, 99_999, true), (other, 100_000, false), (trusted, 100_000, true)] {
        let warning = ForwardingWarning::new();
        for _ in 0..requests {
            assert_eq!(warning.notice(&clients, peer, &plain), None);
        }
        assert_eq!(warning.notice(&clients, other, &forwarded).is_some(), is_noticed, "{peer}, {requests}");
    }
}

#[test]
fn only_one_thread_gets_the_warning() {
    let clients = reading("x-forwarded-for", "nobody");
    let headers = headers("forwarded", &["for=203.0.113.9"]).unwrap();
    for _ in 0..200 {
        let (warning, told) = (ForwardingWarning::new(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    if warning.notice(&clients, ip("10.0.0.1"), &headers).is_some() {
                        told.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(told.into_inner(), 1);
    }
}
