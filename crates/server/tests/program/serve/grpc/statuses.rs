//! The statuses of a response: codes, limits, remainders and reset times.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::RateLimit;
use tidegate::{Clock, SystemClock};

use super::{GrpcServer, descriptor, request};
use crate::serve::write_file;

#[tokio::test]
async fn statuses_come_in_the_order_and_number_of_the_descriptors() {
    let mut server = GrpcServer::start("order").await;
    let all = [
        descriptor("internal", "x"),
        descriptor("path", "/login"),
        descriptor("nobody", "knows"),
        descriptor("path", "/cart"),
        descriptor("internal", "x"),
    ];
    assert_eq!(server.limit_shop(&all).await, "OK [OK 4294967295, OK 1 of 2, OK 0, OK 4 of 5, OK 4294967295]");
    // A descriptor that is sent twice counts twice.
    assert_eq!(
        server.limit_shop(&[descriptor("path", "/cart"), descriptor("path", "/cart")]).await,
        "OK [OK 3 of 5, OK 2 of 5]"
    );
}

#[tokio::test]
async fn a_request_beyond_the_limit_is_over_limit() {
    let mut server = GrpcServer::start("over").await;
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OK [OK 1 of 2]");
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OK [OK 0 of 2]");
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OVER_LIMIT [OVER_LIMIT 0 of 2]");
    // Another value of a key without one has its own counter.
    assert_eq!(server.limit_shop(&[descriptor("path", "/a")]).await, "OK [OK 4 of 5]");
    assert_eq!(server.limit_shop(&[descriptor("path", "/b")]).await, "OK [OK 4 of 5]");
}

#[tokio::test]
async fn unknown_rules_and_domains_admit_without_a_limit() {
    let mut server = GrpcServer::start("nothing").await;
    for (domain, key) in [("shop", "nobody"), ("elsewhere", "path")] {
        let response = server.send(request(domain, &[descriptor(key, "/login")])).await.unwrap();
        let status = &response.statuses[0];
        assert_eq!((status.code, status.limit_remaining), (1, 0), "{domain}");
        assert_eq!((&status.current_limit, &status.duration_until_reset), (&None, &None), "{domain}");
        assert_eq!(response.overall_code, 1);
    }
    let response = server.send(request("shop", &[descriptor("internal", "x")])).await.unwrap();
    let status = &response.statuses[0];
    assert_eq!((status.limit_remaining, &status.current_limit), (u32::MAX, &None));
}

/// The units with their numbers on the wire, and their seconds.
const UNITS: [(&str, i32, i64); 7] = [
    ("second", 1, 1),
    ("minute", 2, 60),
    ("hour", 3, 3_600),
    ("day", 4, 86_400),
    ("month", 5, 30 * 86_400),
    ("year", 6, 365 * 86_400),
    ("week", 7, 7 * 86_400),
];

#[tokio::test]
async fn units_have_their_numbers_and_are_aligned_to_the_epoch() {
    let rule = |(unit, ..): (&str, i32, i64)| {
        format!("  - key: {unit}\n    rate_limit: {{unit: {unit}, requests_per_unit: 7, name: by {unit}}}\n")
    };
    let rules = format!("domain: shop\ndescriptors:\n{}", UNITS.map(rule).concat());
    let mut server = GrpcServer::start_with(&["--config", &write_file("grpc-units.yaml", rules)]).await;
    let descriptors = UNITS.map(|(unit, ..)| descriptor(unit, "x"));
    // A second may end meanwhile, so the end of the unit is computed before and after.
    let before = SystemClock.now();
    let response = server.send(request("shop", &descriptors)).await.unwrap();
    let after = SystemClock.now();
    for (status, (unit, number, seconds)) in response.statuses.iter().zip(UNITS) {
        let limit = RateLimit { name: format!("by {unit}"), requests_per_unit: 7, unit: number };
        assert_eq!(status.current_limit.as_ref(), Some(&limit));
        let until = status.duration_until_reset.as_ref().expect("a time");
        assert_eq!(until.nanos, 0, "{unit}");
        let left = |at: tidegate::Timestamp| {
            let micros = i64::try_from(at.as_micros()).unwrap();
            let period = seconds * 1_000_000;
            (period - micros % period + 999_999) / 1_000_000
        };
        let expected = [left(before), left(after)];
        assert!(expected.contains(&until.seconds), "{unit}: {} s, expected one of {expected:?}", until.seconds);
    }
}

#[tokio::test]
async fn two_domains_in_two_files_do_not_share() {
    let rules = |domain, rate| {
        format!(
            "domain: {domain}\ndescriptors: [{{key: user, rate_limit: {{unit: year, requests_per_unit: {rate}}}}}]\n"
        )
    };
    write_file("grpc-two-shop.yaml", rules("shop", 1));
    write_file("grpc-two-mail.yaml", rules("mail", 2));
    let config = write_file("grpc-two.toml", "[envoy]\nconfigs = [\"grpc-two-shop.yaml\", \"grpc-two-mail.yaml\"]\n");
    let mut server = GrpcServer::start_with(&["--config", &config]).await;
    for (domain, expected) in [
        ("shop", "OK [OK 0 of 1]"),
        ("mail", "OK [OK 1 of 2]"),
        ("shop", "OVER_LIMIT [OVER_LIMIT 0 of 1]"),
        ("mail", "OK [OK 0 of 2]"),
    ] {
        let response = server.send(request(domain, &[descriptor("user", "ann")])).await.unwrap();
        assert_eq!(super::response_summary(&response), expected, "{domain}");
    }
}
