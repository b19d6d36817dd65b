//! Arguments and servers that `bench` refuses.

use std::net::TcpListener;

use super::fake_server::Action;
use super::{FakeServer, bench};
use crate::cli::{run, write_file};

/// An address without a listener.
fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").to_string()
}

#[test]
fn wrong_arguments_exit_with_2_and_name_the_expected_value() {
    let http = "http://127.0.0.1:1";
    let ca = write_file("bench-ca.pem", "");
    let cases: &[(&[&str], &str)] = &[
        (&[], "<URL>..."),
        (&["127.0.0.1:8080"], "expected a URL such as http://127.0.0.1:8080"),
        (&["ftp://a:1"], "expected a URL such as"),
        (&["http://a"], "there is no port in it"),
        (&["http://a:1/v1/limit"], "there is more behind the port"),
        (&["redis://:secret@a:1"], "see --token-file"),
        (&[http, "--rate", "0"], "1..=10000000"),
        (&[http, "--connections", "0"], "1..=10000"),
        (&[http, "--connections", "10001"], "1..=10000"),
        (&[http, "--pipeline", "1001"], "1..=1000"),
        (&[http, "--pipeline", "2"], "--pipeline is for the Redis protocol"),
        (&[http, "--domain", "d"], "--domain is for gRPC"),
        (&[http, "--descriptor", "d"], "--descriptor is for gRPC"),
        (&["grpc://a:1", "--limit", "api"], "--limit is for HTTP and the Redis protocol"),
        (&[http, "--duration", "99ms"], "expected from 100ms to 1h"),
        (&[http, "--duration", "61m"], "expected from 100ms to 1h"),
        (&[http, "--duration", "5"], "found \"5\", expected"),
        (&[http, "--keys", "gauss"], "one, uniform, zipf"),
        (&[http, "--key-count", "0"], "1..=1000000000"),
        (&[http, "--keys", "one", "--key-count", "5"], "--key-count is for --keys uniform and zipf"),
        (&[http, "--cost", "0"], "1..="),
        (&[http, "http://a:2", "--connections", "1"], "expected at least one for each"),
        (&["https://a:1"], "TLS needs --tls-ca FILE"),
        (&[http, "--tls-ca", &ca], "--tls-ca is for TLS"),
    ];
    for (arguments, expected) in cases {
        let ran = run(&[&["bench"], *arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(expected), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn unusable_settings_are_reported_before_the_first_request() {
    let address = unused_address();
    let (url, short, empty) =
        (format!("http://{address}"), write_file("bench-short", "x"), write_file("bench-empty.pem", ""));
    let tls = format!("https://{address}");
    let cases: &[(&[&str], &str)] = &[
        (&[&url, "--token-file", "/nonexistent/token"], "/nonexistent/token: cannot be read: "),
        (&[&url, "--token-file", &short], "the token is too short"),
        (&[&tls, "--tls-ca", "/nonexistent/ca.pem"], "/nonexistent/ca.pem: "),
        (&[&tls, "--tls-ca", &empty], "no certificate in PEM"),
        (&[&url, "--picture", "/nonexistent/a.svg"], "/nonexistent/a.svg: no picture can be written there"),
        (&[&url, "--picture", env!("CARGO_TARGET_TMPDIR")], "no picture can be written there"),
        (&[&url], "nobody listens there: start a server with `tidegate serve`"),
        (&["http://no-such-host.invalid:1"], "is the name of the host right?"),
    ];
    for (arguments, expected) in cases {
        let ran = run(&[&["bench"], *arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{arguments:?}");
        assert!(ran.stderr.contains(expected), "{arguments:?}: {}", ran.stderr);
    }
}

/// The test ends at once with the server's message and advice, instead of counting errors for an hour.
#[test]
fn a_refused_first_request_ends_the_test() {
    const UNKNOWN: Action = Action::Fail("404 Not Found", "there is no limit named 'api'");
    const TOKEN: Action = Action::Fail("401 Unauthorized", "a token is needed");
    const ERR: Action = Action::Fail("ERR", "unknown command");
    const NOAUTH: Action = Action::Fail("NOAUTH", "a token is needed");
    let cases: [(FakeServer, &str); 6] = [
        (FakeServer::http(|_| UNKNOWN), "404 Not Found: there is no limit named 'api'. --limit NAME"),
        (FakeServer::http(|_| TOKEN), "401 Unauthorized: a token is needed. Show the server's token with --token-file"),
        (FakeServer::http(|_| Action::HangUp), "the connection was lost before anything was decided"),
        (FakeServer::resp(|_| ERR), "ERR: unknown command. --limit NAME"),
        (FakeServer::resp(|_| NOAUTH), "NOAUTH: a token is needed. Show the server's token"),
        (FakeServer::grpc(|_| TOKEN), "gRPC Unauthenticated: a token is needed. Show the server's token"),
    ];
    for (server, expected) in cases {
        let ran = bench(&[&server.url, "--duration", "1h"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", server.url);
        assert!(ran.stderr.starts_with(&format!("{}: ", server.url)), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    }
}

#[test]
fn the_wrong_protocol_is_reported() {
    let (http, resp) = (FakeServer::http(|_| Action::Allow), FakeServer::resp(|_| Action::Allow));
    let as_scheme =
        |server: &FakeServer, scheme: &str| server.url.replace("http://", scheme).replace("redis://", scheme);
    for url in [as_scheme(&resp, "http://"), as_scheme(&resp, "grpc://")] {
        let ran = bench(&[&url]);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{url}");
        assert!(ran.stderr.contains("Is that the right port"), "{url}: {}", ran.stderr);
    }
    // Neither server understands a word of it. The server of the test waits for the rest of a request.
    assert_eq!(http.counts(), [0; 3]);
}
