//! The headers of limits, byte for byte, over both versions of HTTP.

use std::time::Duration;

use axum::Router;
use reqwest::Version;
use sfv::{BareItem, List, ListEntry, Parser};
use tidegate::http::{HeaderStyle, LegacyReset, LimitHeaders, RateLimit};
use tidegate::tower::RateLimitLayer;
use tidegate::{Clock, ManualClock, Quota, millis, seconds};

use crate::clients::{self, RawClient, Reply, http1, http2, send};
use crate::support::{Server, bucket, builder, clock, limiter, window};

/// Sends three requests under a limit of two a minute, the second and third 1.5 seconds after the first. Two are
/// admitted, and all times must be rounded.
async fn three_requests(headers: LimitHeaders, clock: ManualClock, client: Option<reqwest::Client>) -> [Reply; 3] {
    let limiter = builder(&clock).limit("api", bucket(2)).build().unwrap();
    let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap()).headers(headers)).await;
    let ask = || async {
        match &client {
            Some(client) => send(client.get(server.url("/"))).await,
            None => clients::get(server.address).await,
        }
    };
    let first = ask().await;
    clock.advance(millis(1_500));
    [first, ask().await, ask().await]
}

/// Checks the limit headers of the three requests: in bytes over HTTP/1.1, and with a client over HTTP/1.1 and HTTP/2.
async fn assert_limit_headers(headers: impl Fn(&ManualClock) -> LimitHeaders, expected: [&[&str]; 3]) {
    for client in [None, Some(http1()), Some(http2())] {
        let clock = clock();
        let replies = three_requests(headers(&clock), clock, client).await;
        assert_eq!(replies.each_ref().map(|reply| reply.status), [200, 200, 429]);
        for (reply, expected) in replies.iter().zip(expected) {
            assert_eq!(reply.limit_headers(), expected);
        }
        assert_eq!(replies[2].problem()["violated-policies"], serde_json::json!(["api"]));
    }
}

#[tokio::test]
async fn ietf_headers_are_the_default() {
    let expected: [&[&str]; 3] = [
        &[r#"ratelimit-policy: "api";q=2;w=60"#, r#"ratelimit: "api";r=1;t=30"#],
        &[r#"ratelimit-policy: "api";q=2;w=60"#, r#"ratelimit: "api";r=0;t=29"#],
        &[r#"ratelimit-policy: "api";q=2;w=60"#, r#"ratelimit: "api";r=0;t=29"#, "retry-after: 29"],
    ];
    assert_limit_headers(|_| LimitHeaders::default(), expected).await;
    assert_limit_headers(|_| LimitHeaders::new([HeaderStyle::Ietf]), expected).await;
}

#[tokio::test]
async fn policy_window_is_written_in_whole_seconds_only() {
    for (period, policy) in [(500, r#""api";q=5"#), (1_500, r#""api";q=5"#), (2_000, r#""api";q=5;w=2"#)] {
        let limiter = builder(&clock()).limit("api", Quota::fixed_window(5, millis(period)).unwrap()).build().unwrap();
        let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap())).await;
        assert_eq!(clients::get(server.address).await.header("ratelimit-policy"), Some(policy));
    }
}

#[tokio::test]
async fn draft_03_headers_are_written() {
    let expected: [&[&str]; 3] = [
        &["ratelimit-limit: 2", "ratelimit-remaining: 1", "ratelimit-reset: 30"],
        &["ratelimit-limit: 2", "ratelimit-remaining: 0", "ratelimit-reset: 59"],
        &["ratelimit-limit: 2", "ratelimit-remaining: 0", "ratelimit-reset: 59", "retry-after: 29"],
    ];
    assert_limit_headers(|_| LimitHeaders::new([HeaderStyle::Draft03]), expected).await;
}

#[tokio::test]
async fn legacy_reset_counts_seconds_from_now() {
    let expected: [&[&str]; 3] = [
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 1", "x-ratelimit-reset: 30"],
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 59"],
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 59", "retry-after: 29"],
    ];
    assert_limit_headers(|_| LimitHeaders::new([HeaderStyle::Legacy]), expected).await;
}

#[tokio::test]
async fn legacy_reset_can_count_from_the_epoch() {
    let expected: [&[&str]; 3] = [
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 1", "x-ratelimit-reset: 1800000030"],
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 1800000060"],
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 1800000060", "retry-after: 29"],
    ];
    let epoch = |clock: &ManualClock| {
        LimitHeaders::new([HeaderStyle::Legacy]).legacy_reset(LegacyReset::Epoch).clock(clock.clone())
    };
    assert_limit_headers(epoch, expected).await;
}

#[tokio::test]
async fn header_families_can_be_combined_or_disabled() {
    let expected: [&[&str]; 3] = [
        &[
            r#"ratelimit-policy: "api";q=2;w=60"#,
            r#"ratelimit: "api";r=1;t=30"#,
            "ratelimit-limit: 2",
            "ratelimit-remaining: 1",
            "ratelimit-reset: 30",
            "x-ratelimit-limit: 2",
            "x-ratelimit-remaining: 1",
            "x-ratelimit-reset: 30",
        ],
        &[
            r#"ratelimit-policy: "api";q=2;w=60"#,
            r#"ratelimit: "api";r=0;t=29"#,
            "ratelimit-limit: 2",
            "ratelimit-remaining: 0",
            "ratelimit-reset: 59",
            "x-ratelimit-limit: 2",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 59",
        ],
        &[
            r#"ratelimit-policy: "api";q=2;w=60"#,
            r#"ratelimit: "api";r=0;t=29"#,
            "ratelimit-limit: 2",
            "ratelimit-remaining: 0",
            "ratelimit-reset: 59",
            "x-ratelimit-limit: 2",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 59",
            "retry-after: 29",
        ],
    ];
    let families = [HeaderStyle::Ietf, HeaderStyle::Draft03, HeaderStyle::Legacy];
    assert_limit_headers(|_| LimitHeaders::new(families), expected).await;
    assert_limit_headers(|_| LimitHeaders::new([]), [&[], &[], &["retry-after: 29"]]).await;
}

#[tokio::test]
async fn admitted_and_denied_responses_match_byte_for_byte() {
    let clock = clock();
    let [first, _, third] = three_requests(LimitHeaders::default(), clock, None).await;
    let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    let allowed = [
        "content-type: text/plain; charset=utf-8",
        r#"ratelimit-policy: "api";q=2;w=60"#,
        r#"ratelimit: "api";r=1;t=30"#,
        "content-length: 2",
    ];
    assert_eq!(first, Reply { status: 200, lines: lines(&allowed), body: "ok".to_owned() });
    let body = concat!(
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","status":429,"#,
        r#""violated-policies":["api"],"retry_after_ms":28500,"retryable":true}"#,
    );
    let denied = [
        "content-type: application/problem+json",
        r#"ratelimit-policy: "api";q=2;w=60"#,
        r#"ratelimit: "api";r=0;t=29"#,
        "retry-after: 29",
        &format!("content-length: {}", body.len()),
    ];
    assert_eq!(third, Reply { status: 429, lines: lines(&denied), body: body.to_owned() });
}

#[tokio::test]
async fn test_clients_use_their_http_version() {
    let limiter = builder(&clock()).limit("api", bucket(2)).build().unwrap();
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    for (client, version) in [(http1(), Version::HTTP_11), (http2(), Version::HTTP_2)] {
        assert_eq!(client.get(server.url("/")).send().await.unwrap().version(), version);
    }
}

#[tokio::test]
async fn waits_are_rounded_up_and_never_zero() {
    let clock = clock();
    let limiter = builder(&clock).limit("api", window(1)).build().unwrap();
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    let mut client = RawClient::connect(server.address).await;
    assert_eq!(client.get("/", &[]).await.status, 200);
    let began = clock.now();
    let micros = Duration::from_micros;
    let cases = [
        (micros(0), "60", 60_000),
        (micros(1), "60", 60_000),
        (micros(1_000_000), "59", 59_000),
        (micros(58_999_999), "2", 1_001),
        (micros(59_000_000), "1", 1_000),
        (micros(59_999_999), "1", 1),
    ];
    for (after, seconds, millis) in cases {
        clock.set(began.saturating_add(after));
        let reply = client.get("/", &[]).await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some(seconds)), "{after:?}");
        assert_eq!(reply.header("ratelimit"), Some(&*format!(r#""api";r=0;t={seconds}"#)), "{after:?}");
        assert_eq!(reply.problem()["retry_after_ms"], millis, "{after:?}");
    }
    clock.set(began.saturating_add(seconds(60)));
    assert_eq!(client.get("/", &[]).await.status, 200);
}

#[tokio::test]
async fn headers_of_the_service_are_kept() {
    let service = || async { ([("ratelimit", "\"mine\";r=7"), ("x-ratelimit-limit", "9"), ("server", "mine")], "ok") };
    let limiter = builder(&clock()).limit("api", bucket(2)).build().unwrap();
    let layer = RateLimitLayer::new(limiter.enforcer("api").unwrap());
    let server = Server::router(Router::new().fallback(service).layer(layer)).await;
    let reply = clients::get(server.address).await;
    assert_eq!(reply.headers("ratelimit"), [r#""mine";r=7"#, r#""api";r=1;t=30"#]);
    // The layer neither writes nor changes headers of a family that was not chosen.
    assert_eq!((reply.header("x-ratelimit-limit"), reply.header("server")), (Some("9"), Some("mine")));
}

/// Returns the one name in a list of strings with parameters.
fn parse_name(value: &str) -> String {
    let list: List = Parser::new(value).parse().unwrap();
    let [ListEntry::Item(item)] = &list[..] else { panic!("{value}: not one item") };
    let BareItem::String(name) = &item.bare_item else { panic!("{value}: not a string") };
    name.as_str().to_owned()
}

#[tokio::test]
async fn policy_name_cannot_break_a_header() {
    let names = [
        ("plain", "plain", r#""plain""#),
        ("a \"quoted\" name", "a \"quoted\" name", r#""a \"quoted\" name""#),
        (r"back\slash\", r"back\slash\", r#""back\\slash\\""#),
        ("100%", "100%", r#""100%""#),
        ("", "", r#""""#),
        (r#"x";q=9, "y"#, r#"x";q=9, "y"#, r#""x\";q=9, \"y""#),
        ("line\r\nset-cookie: a=b", "line%0D%0Aset-cookie: a=b", r#""line%0D%0Aset-cookie: a=b""#),
        ("tab\tand\0nul\x7f", "tab%09and%00nul%7F", r#""tab%09and%00nul%7F""#),
        ("tide 🌊 50%", "tide %F0%9F%8C%8A 50%25", r#""tide %F0%9F%8C%8A 50%25""#),
        ("größe", "gr%C3%B6%C3%9Fe", r#""gr%C3%B6%C3%9Fe""#),
    ];
    for (policy, parsed, written) in names {
        let limiter = limiter(bucket(1));
        let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap().with_policy_name(policy))).await;
        for status in [200, 429] {
            let reply = clients::get(server.address).await;
            assert_eq!(reply.status, status);
            assert_eq!(reply.header("ratelimit-policy"), Some(&*format!("{written};q=1;w=60")));
            assert_eq!(reply.header("ratelimit"), Some(&*format!("{written};r=0;t=60")));
            assert_eq!(reply.header("set-cookie"), None);
            assert_eq!(parse_name(reply.header("ratelimit-policy").unwrap()), parsed);
            assert_eq!(parse_name(reply.header("ratelimit").unwrap()), parsed);
            if status == 429 {
                // JSON can carry any text, so the problem has the name itself.
                assert_eq!(reply.problem()["violated-policies"], serde_json::json!([policy]));
            }
        }
    }
}
