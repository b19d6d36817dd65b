//! The settings of rules: shadow mode, quota mode, sharing, replacing and overrides.

use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use serde_json::{Value, json};

use super::{Asked, hits, on, overriding, request, told};
use crate::serve::url;

#[tokio::test]
async fn denied_request_consumes_nothing_of_its_other_limits() {
    let mut asked = Asked::start("all-or-nothing").await;
    let both = [on("path", "/login"), on("path", "/a")];
    assert_eq!(asked.shop(&both).await, "OK [OK 1 of 2, OK 4 of 5]");
    assert_eq!(asked.shop(&both).await, "OK [OK 0 of 2, OK 3 of 5]");
    for _ in 0..4 {
        assert_eq!(asked.shop(&both).await, "OVER_LIMIT [OVER_LIMIT 0 of 2, OK 3 of 5]");
    }
    assert_eq!(asked.shop(&[on("path", "/a")]).await, "OK [OK 2 of 5]");
}

#[tokio::test]
async fn zero_requests_per_unit_is_always_over() {
    let mut asked = Asked::start("banned").await;
    assert_eq!(asked.shop(&[on("banned", "x")]).await, "OVER_LIMIT [OVER_LIMIT 0 of 0]");
    let both = [on("path", "/a"), on("banned", "x")];
    assert_eq!(asked.shop(&both).await, "OVER_LIMIT [OK 5 of 5, OVER_LIMIT 0 of 0]");
    assert_eq!(asked.shop(&[on("path", "/a")]).await, "OK [OK 4 of 5]");
}

#[tokio::test]
async fn zero_requests_per_unit_counts_as_denials() {
    let mut asked = Asked::start("banned-counted").await;
    assert_eq!(asked.shop(&[on("banned", "x"), on("muted", "x")]).await, "OVER_LIMIT [OVER_LIMIT 0 of 0, OK 0 of 0]");
    assert_eq!(asked.shop(&[on("muted", "x")]).await, "OK [OK 0 of 0]");
    // A check takes nothing.
    assert_eq!(asked.shop(&[hits(on("banned", "x"), 0)]).await, "OVER_LIMIT [OVER_LIMIT 0 of 0]");
    assert_eq!(
        asked.shop(&[overriding(on("new", "x"), 0, RateLimitUnit::Day)]).await,
        "OVER_LIMIT [OVER_LIMIT 0 of 0]"
    );

    let page = reqwest::get(url(&asked.program, "/metrics")).await.expect("answered").text().await.expect("a text");
    for (limit, outcome) in [("shop.banned", "denied"), ("shop.muted", "allowed"), ("shop.(override)", "denied")] {
        let labels = format!("{{limit=\"{limit}\",outcome=\"{outcome}\",reason=\"cost_exceeds_capacity\"}} 1\n");
        assert!(page.contains(&labels), "{labels} in {page}");
    }
    let data = reqwest::get(url(&asked.program, "/dashboard/data")).await.expect("answered");
    let data: Value = data.json().await.expect("JSON");
    assert_eq!((&data["totals"]["denied"], &data["totals"]["shadowed"]), (&json!(2), &json!(1)));
    let top = data["top_keys"]["shown"].as_array().expect("a list");
    assert!(top.iter().any(|one| one["limit"] == "shop.banned" && one["key"] == "x" && one["denied"] == 1), "{top:?}");
    asked.program.logged("denied");
}

#[tokio::test]
async fn shadow_mode_counts_and_admits() {
    let mut asked = Asked::start("shadow").await;
    for _ in 0..3 {
        assert_eq!(asked.shop(&[on("watched", "x")]).await, "OK [OK 0 of 1]");
    }
    // A shadow rule denies no other rule, and is denied by another.
    assert_eq!(asked.shop(&[on("watched", "x"), on("path", "/login")]).await, "OK [OK 0 of 1, OK 1 of 2]");
    let over = [on("watched", "new"), hits(on("path", "/login"), 2)];
    assert_eq!(asked.shop(&over).await, "OVER_LIMIT [OK 1 of 1, OVER_LIMIT 1 of 2]");
    assert_eq!(asked.shop(&[on("watched", "new")]).await, "OK [OK 0 of 1]");
}

#[tokio::test]
async fn quota_mode_denies_only_when_all_are_over() {
    let mut asked = Asked::start("quota-mode").await;
    let all = [on("pool", "x"), on("reserve", "x"), on("path", "/a")];
    assert_eq!(asked.shop(&all).await, "OK [OK 0 of 1, OK 1 of 2, OK 4 of 5]");
    // One is over: the request passes, and the others are charged.
    assert_eq!(asked.shop(&all).await, "OK [OVER_LIMIT 0 of 1, OK 0 of 2, OK 3 of 5]");
    // All are over: nothing is charged.
    assert_eq!(asked.shop(&all).await, "OVER_LIMIT [OVER_LIMIT 0 of 1, OVER_LIMIT 0 of 2, OK 3 of 5]");
    assert_eq!(asked.shop(&[on("path", "/a")]).await, "OK [OK 2 of 5]");
    // One alone is all of them.
    assert_eq!(asked.shop(&[on("pool", "x")]).await, "OVER_LIMIT [OVER_LIMIT 0 of 1]");
}

#[tokio::test]
async fn an_ordinary_rule_denies_beside_quota_mode() {
    let mut asked = Asked::start("quota-mode-beside").await;
    assert_eq!(asked.shop(&[on("pool", "x"), on("path", "/login")]).await, "OK [OK 0 of 1, OK 1 of 2]");
    let over = [on("pool", "x"), on("reserve", "x"), hits(on("path", "/login"), 2)];
    let told = asked.shop(&over).await;
    assert_eq!(told, "OVER_LIMIT [OVER_LIMIT 0 of 1, OK 2 of 2, OVER_LIMIT 1 of 2]");
    assert_eq!(asked.shop(&[on("reserve", "x"), on("path", "/login")]).await, "OK [OK 1 of 2, OK 0 of 2]");
}

#[tokio::test]
async fn values_share_a_counter_where_the_rule_says_so() {
    let mut asked = Asked::start("share").await;
    assert_eq!(asked.shop(&[on("agent", "bot-1")]).await, "OK [OK 1 of 2]");
    assert_eq!(asked.shop(&[on("agent", "bot-2")]).await, "OK [OK 0 of 2]");
    assert_eq!(asked.shop(&[on("agent", "bot-3")]).await, "OVER_LIMIT [OVER_LIMIT 0 of 2]");
    assert_eq!(asked.shop(&[on("agent", "app-1")]).await, "OK [OK 1 of 2]");
    assert_eq!(asked.shop(&[on("agent", "app-2")]).await, "OK [OK 1 of 2]");
}

#[tokio::test]
async fn a_rule_replaces_another_in_the_same_request() {
    let mut asked = Asked::start("replaces").await;
    let both = [on("path", "/login"), on("plan", "gold")];
    for left in ["8", "7", "6"] {
        assert_eq!(asked.shop(&both).await, format!("OK [OK 0, OK {left} of 9]"));
    }
    // Without it, nothing was counted.
    assert_eq!(asked.shop(&[on("path", "/login")]).await, "OK [OK 1 of 2]");
}

#[tokio::test]
async fn two_overrides_of_one_counter_bypass_no_other_limit() {
    let mut asked = Asked::start("override-twice").await;
    let brought = |requests| overriding(on("user", "7"), requests, RateLimitUnit::Year);
    let descriptors = [brought(10), brought(5), on("path", "/login")];
    assert_eq!(asked.shop(&descriptors).await, "OK [OK 4 of 10, OK 3 of 5, OK 1 of 2]");
    assert_eq!(asked.shop(&descriptors).await, "OK [OK 2 of 10, OK 1 of 5, OK 0 of 2]");
    let over = asked.shop(&descriptors[..2]).await;
    assert!(over.starts_with("OVER_LIMIT"), "{over}");
}

#[tokio::test]
async fn an_override_takes_precedence_over_the_rule() {
    let mut asked = Asked::start("override").await;
    let three = || overriding(on("path", "/login"), 3, RateLimitUnit::Year);
    let response = asked.ask(request("shop", &[three()])).await.unwrap();
    let limit = response.statuses[0].current_limit.as_ref().expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit, &*limit.name), (3, 6, ""));
    assert_eq!(told(&response), "OK [OK 2 of 3]");
    assert_eq!(asked.shop(&[three(), three()]).await, "OK [OK 1 of 3, OK 0 of 3]");
    assert_eq!(asked.shop(&[three()]).await, "OVER_LIMIT [OVER_LIMIT 0 of 3]");
    // The rule itself is not charged, nor is any other key or value.
    assert_eq!(asked.shop(&[on("path", "/login")]).await, "OK [OK 1 of 2]");
    let other = overriding(on("path", "/a"), 3, RateLimitUnit::Year);
    assert_eq!(asked.shop(&[other]).await, "OK [OK 2 of 3]");
    // A larger quota from now on keeps the three that are used.
    let five = overriding(on("path", "/login"), 5, RateLimitUnit::Year);
    assert_eq!(asked.shop(&[five]).await, "OK [OK 1 of 5]");
    // It needs no rule, but a domain; and none is none.
    assert_eq!(asked.shop(&[overriding(on("new", "x"), 1, RateLimitUnit::Day)]).await, "OK [OK 0 of 1]");
    assert_eq!(
        asked.shop(&[overriding(on("new", "x"), 0, RateLimitUnit::Day)]).await,
        "OVER_LIMIT [OVER_LIMIT 0 of 0]"
    );
    assert_eq!(told(&asked.ask(request("elsewhere", &[three()])).await.unwrap()), "OK [OK 0]");
}
