//! The settings of rules: shadow mode, quota mode, sharing, replacing and overrides.

use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use serde_json::{Value, json};

use super::{GrpcServer, descriptor, request, response_summary, with_hits, with_override};
use crate::serve::url;

#[tokio::test]
async fn denied_request_consumes_nothing_of_its_other_limits() {
    let mut server = GrpcServer::start("all-or-nothing").await;
    let both = [descriptor("path", "/login"), descriptor("path", "/a")];
    assert_eq!(server.limit_shop(&both).await, "OK [OK 1 of 2, OK 4 of 5]");
    assert_eq!(server.limit_shop(&both).await, "OK [OK 0 of 2, OK 3 of 5]");
    for _ in 0..4 {
        assert_eq!(server.limit_shop(&both).await, "OVER_LIMIT [OVER_LIMIT 0 of 2, OK 3 of 5]");
    }
    assert_eq!(server.limit_shop(&[descriptor("path", "/a")]).await, "OK [OK 2 of 5]");
}

#[tokio::test]
async fn zero_requests_per_unit_is_always_over() {
    let mut server = GrpcServer::start("banned").await;
    assert_eq!(server.limit_shop(&[descriptor("banned", "x")]).await, "OVER_LIMIT [OVER_LIMIT 0 of 0]");
    let both = [descriptor("path", "/a"), descriptor("banned", "x")];
    assert_eq!(server.limit_shop(&both).await, "OVER_LIMIT [OK 5 of 5, OVER_LIMIT 0 of 0]");
    assert_eq!(server.limit_shop(&[descriptor("path", "/a")]).await, "OK [OK 4 of 5]");
}

#[tokio::test]
async fn zero_requests_per_unit_counts_as_denials() {
    let mut server = GrpcServer::start("banned-counted").await;
    assert_eq!(
        server.limit_shop(&[descriptor("banned", "x"), descriptor("muted", "x")]).await,
        "OVER_LIMIT [OVER_LIMIT 0 of 0, OK 0 of 0]"
    );
    assert_eq!(server.limit_shop(&[descriptor("muted", "x")]).await, "OK [OK 0 of 0]");
    // A check takes nothing.
    assert_eq!(server.limit_shop(&[with_hits(descriptor("banned", "x"), 0)]).await, "OVER_LIMIT [OVER_LIMIT 0 of 0]");
    assert_eq!(
        server.limit_shop(&[with_override(descriptor("new", "x"), 0, RateLimitUnit::Day)]).await,
        "OVER_LIMIT [OVER_LIMIT 0 of 0]"
    );

    let page = reqwest::get(url(&server.program, "/metrics")).await.expect("answered").text().await.expect("a text");
    for (limit, outcome) in [("shop.banned", "denied"), ("shop.muted", "allowed"), ("shop.(override)", "denied")] {
        let labels = format!("{{limit=\"{limit}\",outcome=\"{outcome}\",reason=\"cost_exceeds_capacity\"}} 1\n");
        assert!(page.contains(&labels), "{labels} in {page}");
    }
    let data = reqwest::get(url(&server.program, "/dashboard/data")).await.expect("answered");
    let data: Value = data.json().await.expect("JSON");
    assert_eq!((&data["totals"]["denied"], &data["totals"]["shadowed"]), (&json!(2), &json!(1)));
    let top = data["top_keys"]["shown"].as_array().expect("a list");
    assert!(top.iter().any(|one| one["limit"] == "shop.banned" && one["key"] == "x" && one["denied"] == 1), "{top:?}");
    server.program.wait_for_log("denied");
}

#[tokio::test]
async fn shadow_mode_counts_and_admits() {
    let mut server = GrpcServer::start("shadow").await;
    for _ in 0..3 {
        assert_eq!(server.limit_shop(&[descriptor("watched", "x")]).await, "OK [OK 0 of 1]");
    }
    // A shadow rule denies no other rule, and is denied by another.
    assert_eq!(
        server.limit_shop(&[descriptor("watched", "x"), descriptor("path", "/login")]).await,
        "OK [OK 0 of 1, OK 1 of 2]"
    );
    let over = [descriptor("watched", "new"), with_hits(descriptor("path", "/login"), 2)];
    assert_eq!(server.limit_shop(&over).await, "OVER_LIMIT [OK 1 of 1, OVER_LIMIT 1 of 2]");
    assert_eq!(server.limit_shop(&[descriptor("watched", "new")]).await, "OK [OK 0 of 1]");
}

#[tokio::test]
async fn quota_mode_denies_only_when_all_are_over() {
    let mut server = GrpcServer::start("quota-mode").await;
    let all = [descriptor("pool", "x"), descriptor("reserve", "x"), descriptor("path", "/a")];
    assert_eq!(server.limit_shop(&all).await, "OK [OK 0 of 1, OK 1 of 2, OK 4 of 5]");
    // One is over: the request passes, and the others are charged.
    assert_eq!(server.limit_shop(&all).await, "OK [OVER_LIMIT 0 of 1, OK 0 of 2, OK 3 of 5]");
    // All are over: nothing is charged.
    assert_eq!(server.limit_shop(&all).await, "OVER_LIMIT [OVER_LIMIT 0 of 1, OVER_LIMIT 0 of 2, OK 3 of 5]");
    assert_eq!(server.limit_shop(&[descriptor("path", "/a")]).await, "OK [OK 2 of 5]");
    // A single rule is all of the rules.
    assert_eq!(server.limit_shop(&[descriptor("pool", "x")]).await, "OVER_LIMIT [OVER_LIMIT 0 of 1]");
}

#[tokio::test]
async fn an_ordinary_rule_denies_alongside_quota_mode() {
    let mut server = GrpcServer::start("quota-mode-beside").await;
    assert_eq!(
        server.limit_shop(&[descriptor("pool", "x"), descriptor("path", "/login")]).await,
        "OK [OK 0 of 1, OK 1 of 2]"
    );
    let over = [descriptor("pool", "x"), descriptor("reserve", "x"), with_hits(descriptor("path", "/login"), 2)];
    let response = server.limit_shop(&over).await;
    assert_eq!(response, "OVER_LIMIT [OVER_LIMIT 0 of 1, OK 2 of 2, OVER_LIMIT 1 of 2]");
    assert_eq!(
        server.limit_shop(&[descriptor("reserve", "x"), descriptor("path", "/login")]).await,
        "OK [OK 1 of 2, OK 0 of 2]"
    );
}

#[tokio::test]
async fn values_share_a_counter_with_share_threshold() {
    let mut server = GrpcServer::start("share").await;
    assert_eq!(server.limit_shop(&[descriptor("agent", "bot-1")]).await, "OK [OK 1 of 2]");
    assert_eq!(server.limit_shop(&[descriptor("agent", "bot-2")]).await, "OK [OK 0 of 2]");
    assert_eq!(server.limit_shop(&[descriptor("agent", "bot-3")]).await, "OVER_LIMIT [OVER_LIMIT 0 of 2]");
    assert_eq!(server.limit_shop(&[descriptor("agent", "app-1")]).await, "OK [OK 1 of 2]");
    assert_eq!(server.limit_shop(&[descriptor("agent", "app-2")]).await, "OK [OK 1 of 2]");
}

#[tokio::test]
async fn a_rule_replaces_another_in_the_same_request() {
    let mut server = GrpcServer::start("replaces").await;
    let both = [descriptor("path", "/login"), descriptor("plan", "gold")];
    for left in ["8", "7", "6"] {
        assert_eq!(server.limit_shop(&both).await, format!("OK [OK 0, OK {left} of 9]"));
    }
    // Without the override, nothing was counted.
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OK [OK 1 of 2]");
}

#[tokio::test]
async fn two_overrides_of_one_counter_bypass_no_other_limit() {
    let mut server = GrpcServer::start("override-twice").await;
    let with_requests = |requests| with_override(descriptor("user", "7"), requests, RateLimitUnit::Year);
    let descriptors = [with_requests(10), with_requests(5), descriptor("path", "/login")];
    assert_eq!(server.limit_shop(&descriptors).await, "OK [OK 4 of 10, OK 3 of 5, OK 1 of 2]");
    assert_eq!(server.limit_shop(&descriptors).await, "OK [OK 2 of 10, OK 1 of 5, OK 0 of 2]");
    let over = server.limit_shop(&descriptors[..2]).await;
    assert!(over.starts_with("OVER_LIMIT"), "{over}");
}

#[tokio::test]
async fn an_override_takes_precedence_over_the_rule() {
    let mut server = GrpcServer::start("override").await;
    let three = || with_override(descriptor("path", "/login"), 3, RateLimitUnit::Year);
    let response = server.send(request("shop", &[three()])).await.unwrap();
    let limit = response.statuses[0].current_limit.as_ref().expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit, &*limit.name), (3, 6, ""));
    assert_eq!(response_summary(&response), "OK [OK 2 of 3]");
    assert_eq!(server.limit_shop(&[three(), three()]).await, "OK [OK 1 of 3, OK 0 of 3]");
    assert_eq!(server.limit_shop(&[three()]).await, "OVER_LIMIT [OVER_LIMIT 0 of 3]");
    // The rule itself is not charged, nor is any other key or value.
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OK [OK 1 of 2]");
    let other = with_override(descriptor("path", "/a"), 3, RateLimitUnit::Year);
    assert_eq!(server.limit_shop(&[other]).await, "OK [OK 2 of 3]");
    // A larger quota from now on keeps the three that are used.
    let five = with_override(descriptor("path", "/login"), 5, RateLimitUnit::Year);
    assert_eq!(server.limit_shop(&[five]).await, "OK [OK 1 of 5]");
    // It needs a domain but no rule. Without an override there is none.
    assert_eq!(
        server.limit_shop(&[with_override(descriptor("new", "x"), 1, RateLimitUnit::Day)]).await,
        "OK [OK 0 of 1]"
    );
    assert_eq!(
        server.limit_shop(&[with_override(descriptor("new", "x"), 0, RateLimitUnit::Day)]).await,
        "OVER_LIMIT [OVER_LIMIT 0 of 0]"
    );
    assert_eq!(response_summary(&server.send(request("elsewhere", &[three()])).await.unwrap()), "OK [OK 0]");
}
