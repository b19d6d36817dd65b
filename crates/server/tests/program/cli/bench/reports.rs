//! Reports of `bench`, compared with the requests that servers received.

use super::fake_server::Action;
use super::{FakeServer, bench, counts, figures};
use crate::cli::{run, write_file};

/// Allows three of four requests.
fn deny_every_fourth(number: u64) -> Action {
    if number % 4 == 3 { Action::Deny } else { Action::Allow }
}

#[test]
fn the_report_counts_what_the_server_received() {
    for server in
        [FakeServer::http(deny_every_fourth), FakeServer::resp(deny_every_fourth), FakeServer::grpc(deny_every_fourth)]
    {
        let figures = figures(&bench(&[&server.url]));
        let seen = server.counts();
        assert_eq!(counts(&figures), seen, "{}", server.url);
        assert!(seen[0] > 0 && seen[1] > 0 && seen[2] == 0, "{seen:?}");
        assert_eq!(
            (&figures["urls"][0]["url"], &figures["urls"][0]["allowed"]),
            (&server.url[..].into(), &seen[0].into())
        );
        let latency = |name: &str| figures["latency_us"][name].as_u64().expect(name);
        let percentiles = ["p50", "p90", "p99", "p99.9", "max"].map(latency);
        assert!(percentiles.is_sorted() && percentiles[0] > 0, "{percentiles:?}");
    }
}

#[test]
fn the_configured_rate_is_kept() {
    let server = FakeServer::http(deny_every_fourth);
    let figures = figures(&bench(&[&server.url, "--rate", "100", "--duration", "500ms"]));
    // Every due request was sent, or is reported as unsent on a busy machine.
    let sent: u64 = counts(&figures).iter().sum();
    assert_eq!(sent + figures["unsent"].as_u64().unwrap(), 50);
    assert_eq!(counts(&figures), server.counts());
}

#[test]
fn a_fleet_of_mixed_protocols_has_figures_for_each_and_for_all() {
    let servers =
        [FakeServer::http(deny_every_fourth), FakeServer::resp(|_| Action::Deny), FakeServer::grpc(|_| Action::Allow)];
    let urls: Vec<&str> = servers.iter().map(|server| &server.url[..]).collect();
    let figures = figures(&bench(&[&urls[..], &["--rate", "300"]].concat()));
    let mut sum = [0; 3];
    for (index, server) in servers.iter().enumerate() {
        let seen = server.counts();
        assert_eq!(counts(&figures["urls"][index]), seen, "{}", server.url);
        sum = [0, 1, 2].map(|at: usize| sum[at] + seen[at]);
    }
    assert_eq!(counts(&figures), sum);
    assert!(servers[1].counts()[0] == 0 && servers[2].counts()[1] == 0);
}

#[test]
fn requests_have_the_configured_limit_key_and_cost() {
    let token = write_file("bench-token", "0123456789abcdef\n");
    let with = |server: &FakeServer, more: &[&str]| {
        let one = ["--keys", "one", "--cost", "7"];
        figures(&bench(&[&[&server.url[..]], &one[..], more].concat()));
        server.last()
    };
    let http = FakeServer::http(deny_every_fourth);
    let last = with(&http, &["--token-file", &token, "--limit", "a \"b\""]);
    assert!(last.starts_with("POST /v1/limit HTTP/1.1\r\n"), "{last}");
    assert!(last.to_lowercase().contains("\r\nauthorization: bearer 0123456789abcdef\r\n"), "{last}");
    assert!(last.ends_with("\r\n\r\n{\"limit\":\"a \\\"b\\\"\",\"key\":\"bench-0\",\"cost\":7}"), "{last}");
    assert!(with(&http, &[]).ends_with("{\"limit\":\"api\",\"key\":\"bench-0\",\"cost\":7}"));

    let resp = FakeServer::resp(deny_every_fourth);
    assert_eq!(with(&resp, &[]), "CL.THROTTLE bench-0 15 30 60 7");
    assert_eq!(with(&resp, &["--limit", "login", "--pipeline", "5"]), "TG.LIMIT login bench-0 7");

    let grpc = FakeServer::grpc(deny_every_fourth);
    assert_eq!(with(&grpc, &[]), "envoy remote_address=bench-0 7 none");
    let last = with(&grpc, &["--domain", "shop", "--descriptor", "user", "--token-file", &token]);
    assert_eq!(last, "shop user=bench-0 7 Bearer 0123456789abcdef");
}

#[test]
fn errors_are_reported_by_kind_with_the_first_message() {
    fn fail_every_fifth(number: u64) -> Action {
        if number % 5 == 4 { Action::Fail("503 Service Unavailable", "the store is broken") } else { Action::Allow }
    }
    let server = FakeServer::http(fail_every_fifth);
    let of = figures(&bench(&[&server.url]));
    assert_eq!(counts(&of), server.counts());
    assert_eq!(of["errors_by_kind"]["503 Service Unavailable"], of["errors"]);
    let picture = format!("{}/bench-errors.svg", env!("CARGO_TARGET_TMPDIR"));
    let ran = run(&["bench", &server.url, "--duration", "200ms", "--picture", &picture]);
    assert_eq!((ran.code, ran.stderr), (0, format!("picture: {picture}\n")));
    let expected = format!(" x 503 Service Unavailable from {}; the first: the store is broken\n", server.url);
    assert!(ran.stdout.contains(&expected), "{}", ran.stdout);
    let svg = std::fs::read_to_string(&picture).expect("it was written");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("class=\"errors\""));
}

#[test]
fn an_unknown_domain_is_reported() {
    let server = FakeServer::grpc(|_| Action::Ignore);
    let ran = run(&["bench", &server.url, "--duration", "200ms", "--picture", "off"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let expected = format!("warning: {} has no rule for ", server.url);
    assert!(ran.stdout.contains(&expected) && ran.stdout.contains("--domain"), "{}", ran.stdout);

    let ran = bench(&[&server.url]);
    assert!(ran.stderr.contains(&expected) && ran.stderr.contains("--domain"), "{}", ran.stderr);
    let figures = figures(&ran);
    for figures in [&figures, &figures["urls"][0]] {
        assert!(figures["unmatched"].as_u64() > Some(0) && figures["unmatched"] == figures["allowed"], "{figures}");
    }
}
