//! What clients are told, byte for byte, over both versions of HTTP.

use std::time::Duration;

use axum::Router;
use reqwest::Version;
use tidegate::http::{HeaderStyle, LegacyReset, LimitHeaders, RateLimit};
use tidegate::tower::RateLimitLayer;
use tidegate::{Clock, ManualClock, Quota, millis, seconds};

use crate::clients::{self, Raw, Reply, http1, http2, send};
use crate::support::{Server, bucket, builder, clock, window};

/// Three requests under a limit of two a minute, the second and third of them a second and a half after the first: two
/// are admitted, and nothing of what is told is a whole second.
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

/// What is told of the three requests: in bytes over HTTP/1.1, and to a client over HTTP/1.1 and over HTTP/2.
async fn assert_told(headers: impl Fn(&ManualClock) -> LimitHeaders, told: [&[&str]; 3]) {
    for client in [None, Some(http1()), Some(http2())] {
        let clock = clock();
        let replies = three_requests(headers(&clock), clock, client).await;
        assert_eq!(replies.each_ref().map(|reply| reply.status), [200, 200, 429]);
        for (reply, told) in replies.iter().zip(told) {
            assert_eq!(reply.told(), told);
        }
        assert_eq!(replies[2].problem()["violated-policies"], serde_json::json!(["api"]));
    }
}

#[tokio::test]
async fn the_ietf_family_is_the_default() {
    let told: [&[&str]; 3] = [
        &[r#"ratelimit-policy: "api";q=2;w=60"#, r#"ratelimit: "api";r=1;t=30"#],
        &[r#"ratelimit-policy: "api";q=2;w=60"#, r#"ratelimit: "api";r=0;t=29"#],
        &[r#"ratelimit-policy: "api";q=2;w=60"#, r#"ratelimit: "api";r=0;t=29"#, "retry-after: 29"],
    ];
    assert_told(|_| LimitHeaders::default(), told).await;
    assert_told(|_| LimitHeaders::new([HeaderStyle::Ietf]), told).await;
}

#[tokio::test]
async fn a_window_is_told_where_it_is_whole_seconds() {
    for (period, policy) in [(500, r#""api";q=5"#), (1_500, r#""api";q=5"#), (2_000, r#""api";q=5;w=2"#)] {
        let limiter = builder(&clock()).limit("api", Quota::fixed_window(5, millis(period)).unwrap()).build().unwrap();
        let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap())).await;
        assert_eq!(clients::get(server.address).await.header("ratelimit-policy"), Some(policy));
    }
}

#[tokio::test]
async fn the_family_of_draft_03() {
    let told: [&[&str]; 3] = [
        &["ratelimit-limit: 2", "ratelimit-remaining: 1", "ratelimit-reset: 30"],
        &["ratelimit-limit: 2", "ratelimit-remaining: 0", "ratelimit-reset: 59"],
        &["ratelimit-limit: 2", "ratelimit-remaining: 0", "ratelimit-reset: 59", "retry-after: 29"],
    ];
    assert_told(|_| LimitHeaders::new([HeaderStyle::Draft03]), told).await;
}

#[tokio::test]
async fn the_legacy_family_counts_seconds_from_now() {
    let told: [&[&str]; 3] = [
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 1", "x-ratelimit-reset: 30"],
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 59"],
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 59", "retry-after: 29"],
    ];
    assert_told(|_| LimitHeaders::new([HeaderStyle::Legacy]), told).await;
}

#[tokio::test]
async fn the_legacy_family_can_count_from_the_epoch() {
    let told: [&[&str]; 3] = [
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 1", "x-ratelimit-reset: 1800000030"],
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 1800000060"],
        &["x-ratelimit-limit: 2", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 1800000060", "retry-after: 29"],
    ];
    let epoch = |clock: &ManualClock| {
        LimitHeaders::new([HeaderStyle::Legacy]).legacy_reset(LegacyReset::Epoch).clock(clock.clone())
    };
    assert_told(epoch, told).await;
}

#[tokio::test]
async fn several_families_at_once_and_none() {
    let told: [&[&str]; 3] = [
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
    assert_told(|_| LimitHeaders::new(families), told).await;
    assert_told(|_| LimitHeaders::new([]), [&[], &[], &["retry-after: 29"]]).await;
}

#[tokio::test]
async fn the_whole_of_both_responses() {
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
async fn the_clients_speak_the_version_they_are_there_for() {
    let limiter = builder(&clock()).limit("api", bucket(2)).build().unwrap();
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    for (client, version) in [(http1(), Version::HTTP_11), (http2(), Version::HTTP_2)] {
        assert_eq!(client.get(server.url("/")).send().await.unwrap().version(), version);
    }
}

#[tokio::test]
async fn waits_are_rounded_up_and_never_none() {
    let clock = clock();
    let limiter = builder(&clock).limit("api", window(1)).build().unwrap();
    let server = Server::behind(limiter.enforcer("api").unwrap()).await;
    let mut client = Raw::connect(server.address).await;
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
async fn what_the_service_says_of_limits_of_its_own_stays() {
    let service = || async { ([("ratelimit", "\"mine\";r=7"), ("x-ratelimit-limit", "9"), ("server", "mine")], "ok") };
    let limiter = builder(&clock()).limit("api", bucket(2)).build().unwrap();
    let layer = RateLimitLayer::new(limiter.enforcer("api").unwrap());
    let server = Server::router(Router::new().fallback(service).layer(layer)).await;
    let reply = clients::get(server.address).await;
    assert_eq!(reply.headers("ratelimit"), [r#""mine";r=7"#, r#""api";r=1;t=30"#]);
    // Of a family that was not chosen the layer says nothing, and leaves alone what others say.
    assert_eq!((reply.header("x-ratelimit-limit"), reply.header("server")), (Some("9"), Some("mine")));
}
