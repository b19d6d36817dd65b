//! Bounds on reading: no more bytes than needed, and none twice.

use tidegate::http::ClientAddress;

use super::{headers, ip, reading};

const MEGABYTE: usize = 1 << 20;

/// Lines of a header that panic when read from the left, or when more than these are read.
struct LinesFromTheRight<'a>(&'a [&'a [u8]]);

impl<'a> Iterator for LinesFromTheRight<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        panic!("read from the left");
    }
}

impl DoubleEndedIterator for LinesFromTheRight<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (last, before) = self.0.split_last().expect("read further than needed");
        self.0 = before;
        Some(last)
    }
}

#[test]
fn header_of_an_untrusted_peer_is_not_read() {
    for header in ["x-forwarded-for", "forwarded", "x-real-ip"] {
        for trust in ["nobody", "0", "10.0.0.0/8"] {
            let found = reading(header, trust).find_in_lines(ip("203.0.113.9"), LinesFromTheRight(&[]));
            assert_eq!(found.address(), ip("203.0.113.9"), "{header}, {trust}");
        }
    }
}

#[test]
fn lines_are_read_from_the_right_as_far_as_needed() {
    let found = |clients: &ClientAddress, lines: &[&[u8]]| {
        clients.find_in_lines(ip("10.0.0.1"), LinesFromTheRight(lines)).address()
    };
    let client = ip("203.0.113.9");
    assert_eq!(found(&reading("x-forwarded-for", "1"), &[b"203.0.113.9"]), client);
    assert_eq!(found(&reading("x-forwarded-for", "2"), &[b"203.0.113.9", b"10.0.0.2"]), client);
    assert_eq!(found(&reading("x-forwarded-for", "10.0.0.0/8"), &[b"203.0.113.9, 10.0.0.3", b"10.0.0.2"]), client);
    assert_eq!(found(&reading("x-forwarded-for", "9"), &[b"nonsense"]), ip("10.0.0.1"), "malformed");
    assert_eq!(found(&reading("forwarded", "2"), &[b"for=203.0.113.9", b"for=10.0.0.2"]), client);
    assert_eq!(found(&reading("x-real-ip", "9"), &[b"203.0.113.9"]), client);
    assert_eq!(found(&reading("x-real-ip", "10.0.0.0/8"), &[b"10.0.0.7"]), ip("10.0.0.7"));
}

/// Quadratic time would take hours here.
#[test]
fn megabyte_header_is_read_in_linear_time() {
    let pieces: [&[u8]; 16] = [
        b"6",
        b",",
        b" ",
        b"\"",
        b"\\",
        b";",
        b"\\\"",
        b"\\\\\"",
        b"\",\"",
        b"for=",
        b"for=\"",
        b",10.0.0.2",
        b",for=10.0.0.2",
        b"x=\"\\\",\";",
        b"[",
        b"fe80::1%",
    ];
    for piece in pieces {
        let huge = piece.repeat(MEGABYTE / piece.len());
        for header in ["x-forwarded-for", "forwarded", "x-real-ip"] {
            let client = if header == "forwarded" { "for=203.0.113.9" } else { "203.0.113.9" };
            let joined = [&huge[..], b",", client.as_bytes()].concat();
            for lines in [vec![&joined[..]], vec![&huge[..], client.as_bytes()]] {
                assert_eq!(reading(header, "1").find_in_lines(ip("10.0.0.1"), lines).address(), ip("203.0.113.9"));
            }
            // If every entry is trusted, the search reaches the end.
            for trust in ["255", "0.0.0.0/0 ::/0"] {
                let found = reading(header, trust).find_in_lines(ip("10.0.0.1"), [&huge[..]]).address();
                assert!([ip("10.0.0.1"), ip("10.0.0.2")].contains(&found), "{found}");
            }
        }
    }
}

#[test]
fn address_in_a_megabyte_of_spaces_is_found() {
    let line = [" ".repeat(MEGABYTE), "203.0.113.9".to_owned(), "\t".repeat(MEGABYTE)].concat();
    let found = reading("x-forwarded-for", "1").find(ip("10.0.0.1"), &headers("x-forwarded-for", &[line]).unwrap());
    assert_eq!(found.address(), ip("203.0.113.9"));
}

#[test]
fn entry_longer_than_any_address_is_malformed() {
    for (header, before, after) in
        [("x-forwarded-for", "", ""), ("forwarded", "for=", ""), ("forwarded", "for=\"", "\"")]
    {
        let found = |zone: usize| {
            let line = format!("{before}fe80::1%{}{after}", "x".repeat(zone));
            reading(header, "1").find_in_lines(ip("10.0.0.1"), [line.as_bytes()]).address()
        };
        assert_eq!((found(60), found(120), found(121)), (ip("fe80::1"), ip("fe80::1"), ip("10.0.0.1")), "{header}");
    }
}
