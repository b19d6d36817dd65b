//! Decisions over the HTTP API: every operation, keys, joint requests and batches.

use reqwest::StatusCode;
use serde_json::json;

use super::{post, start_server, url};

/// Asserts a decision, except for its times, and returns it.
macro_rules! assert_decision {
    ($answer:expr, $allowed:expr, $limit:expr, $remaining:expr, $reason:expr) => {{
        let (status, answer) = $answer;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let fields: Vec<_> = answer.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(fields.len(), 6, "{answer}");
        let found = (&answer["allowed"], &answer["limit"], &answer["remaining"], answer["reason"].as_str());
        assert_eq!(found, (&json!($allowed), &json!($limit), &json!($remaining), $reason), "{answer}");
        answer
    }};
}

#[tokio::test]
async fn every_operation_answers_with_a_decision() {
    let (program, _config) = start_server(&[]);
    let body = r#"{"limit":"five","key":"u1","cost":2}"#;
    let fresh = assert_decision!(post(&program, "/v1/check", body).await, true, 5, 5, None);
    assert_eq!((&fresh["retry_after_ms"], &fresh["reset_after_ms"]), (&json!(null), &json!(0)));
    assert_decision!(post(&program, "/v1/limit", body).await, true, 5, 3, None);
    assert_decision!(post(&program, "/v1/limit", body).await, true, 5, 1, None);
    let denied = assert_decision!(post(&program, "/v1/limit", body).await, false, 5, 1, Some("rate"));
    // One more of five a day: a fifth of a day, less the time since.
    let wait = denied["retry_after_ms"].as_u64().expect("a time");
    assert!((17_000_000..=17_280_000).contains(&wait), "{wait}");
    assert_decision!(post(&program, "/v1/check", body).await, false, 5, 1, Some("rate"));
    assert_decision!(post(&program, "/v1/refund", body).await, true, 5, 3, None);
    let debt = assert_decision!(
        post(&program, "/v1/reserve", r#"{"limit":"five","key":"u1","cost":4}"#).await,
        true,
        5,
        0,
        None
    );
    assert!(debt["retry_after_ms"].as_u64().is_some(), "{debt}");
    assert_decision!(post(&program, "/v1/reset", body).await, true, 5, 5, None);
    let never = r#"{"limit":"five","key":"u1","cost":6}"#;
    let never = assert_decision!(post(&program, "/v1/limit", never).await, false, 5, 5, Some("cost_exceeds_capacity"));
    assert_eq!(never["retry_after_ms"], json!(null));
    let denied = assert_decision!(
        post(&program, "/v1/limit", r#"{"limit":"closed_to_some","key":"mallory"}"#).await,
        false,
        5,
        0,
        Some("deny")
    );
    assert_eq!(denied["retry_after_ms"], json!(null));
}

#[tokio::test]
async fn a_key_is_a_string_a_list_or_null() {
    let (program, _config) = start_server(&[]);
    for key in [r#""u1""#, r#"["u1","x"]"#, "null", r#""u1|x""#, r#""""#] {
        let body = format!(r#"{{"limit":"two","key":{key}}}"#);
        assert_decision!(post(&program, "/v1/limit", &body).await, true, 2, 1, None);
    }
    // A key of one part equals that part.
    assert_decision!(post(&program, "/v1/limit", r#"{"limit":"two","key":["u1"]}"#).await, true, 2, 0, None);
}

#[tokio::test]
async fn denied_joint_request_consumes_nothing() {
    let (program, _config) = start_server(&[]);
    let both = r#"{"requests":[{"limit":"five","key":"u1","cost":2},{"limit":"two","key":"u1"}]}"#;
    for remaining in [3, 1] {
        let (status, answer) = post(&program, "/v1/all", both).await;
        assert_eq!((status, &answer["allowed"]), (StatusCode::OK, &json!(true)));
        assert_eq!(answer["decisions"][0]["remaining"], json!(remaining));
    }
    let (_, answer) = post(&program, "/v1/all", both).await;
    assert_eq!(answer["allowed"], json!(false));
    let one = r#"{"limit":"five","key":"u1"}"#;
    assert_decision!(post(&program, "/v1/check", one).await, true, 5, 1, None);
}

#[tokio::test]
async fn batch_entries_are_decided_in_order_and_independently() {
    let (program, _config) = start_server(&[]);
    let three =
        r#"{"requests":[{"limit":"two","key":"b"},{"limit":"two","key":"b","cost":2},{"limit":"two","key":"b"}]}"#;
    let (status, answer) = post(&program, "/v1/batch", three).await;
    let found: Vec<_> = answer["decisions"].as_array().expect("a list").iter().map(|one| &one["allowed"]).collect();
    assert_eq!((status, found), (StatusCode::OK, vec![&json!(true), &json!(false), &json!(true)]));
    // With a mistake in one request, nothing is decided.
    let wrong = r#"{"requests":[{"limit":"five","key":"b"},{"limit":"six","key":"b"}]}"#;
    assert_eq!(post(&program, "/v1/batch", wrong).await.0, StatusCode::NOT_FOUND);
    assert_decision!(post(&program, "/v1/check", r#"{"limit":"five","key":"b"}"#).await, true, 5, 5, None);
}

#[tokio::test]
async fn only_served_limits_are_listed() {
    let (program, _config) = start_server(&[]);
    let answer = reqwest::get(url(&program, "/v1/limits")).await.expect("an answer").text().await.expect("text");
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    let names: Vec<_> = answer["limits"].as_array().expect("a list").iter().map(|limit| &limit["name"]).collect();
    assert_eq!(names, [&json!("two"), &json!("five"), &json!("closed_to_some")]);
    let one = json!({"name": "two", "algorithm": "sliding_log", "rate": 2, "period_us": 86_400_000_000_u64, "capacity": 2, "shadow": false});
    assert_eq!(answer["limits"][0], one);
}
