//! Leases: `/v1/admit`, `/v1/renew`, `/v1/release`.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{TempFile, url};
use crate::serve::program::Program;

const LIMITS: &str = r#"
[limits.work]
algorithm = "concurrency"
capacity = 2
ttl = "30s"

[limits.short]
algorithm = "concurrency"
capacity = 1
ttl = "1s"

[limits.rate]
algorithm = "token_bucket"
rate = 5
period = "1d"
"#;

fn start_server() -> (Program, TempFile) {
    let config = TempFile::new(LIMITS);
    (Program::start(&["--config", config.path(), "--grpc", "off", "--resp", "off"]), config)
}

async fn post(program: &Program, path: &str, body: &Value) -> (StatusCode, Value) {
    let response = reqwest::Client::new().post(url(program, path)).json(body).send().await.expect("an answer");
    (response.status(), response.json().await.expect("JSON"))
}

async fn post_ok(program: &Program, path: &str, body: Value) -> Value {
    let (status, answer) = post(program, path, &body).await;
    assert_eq!(status, StatusCode::OK, "{path} {body}: {answer}");
    answer
}

#[tokio::test]
async fn a_lease_is_held_until_its_release_and_released_once() {
    let (program, _config) = start_server();
    let admit = || post_ok(&program, "/v1/admit", json!({"limit": "work", "key": ["t|1", "a.b"]}));
    let first = admit().await;
    let lease = first["lease"].as_str().expect("a lease").to_owned();
    assert_eq!(
        first,
        json!({"allowed": true, "limit": 2, "remaining": 1, "retry_after_ms": null, "reset_after_ms": 30000,
               "reason": null, "lease": lease, "expires_in_ms": 30000})
    );
    assert_eq!(admit().await["remaining"], 0);
    let denied = admit().await;
    assert_eq!((&denied["allowed"], &denied["reason"]), (&json!(false), &json!("concurrency")));
    assert_eq!((&denied["lease"], &denied["expires_in_ms"]), (&Value::Null, &Value::Null));
    assert!((1..=30_000).contains(&denied["retry_after_ms"].as_u64().expect("a hint")), "{denied}");

    let renewed = post_ok(&program, "/v1/renew", json!({"lease": lease})).await;
    assert_eq!((&renewed["allowed"], &renewed["expires_in_ms"]), (&json!(true), &json!(30000)));
    let released = post_ok(&program, "/v1/release", json!({"lease": lease, "outcome": "done"})).await;
    assert_eq!((&released["allowed"], &released["remaining"]), (&json!(true), &json!(1)));
    // Again: nothing changes, and no other lease is released.
    let again = post_ok(&program, "/v1/release", json!({"lease": lease, "outcome": "dropped"})).await;
    assert_eq!((&again["allowed"], &again["remaining"]), (&json!(false), &json!(1)));
    let gone = post_ok(&program, "/v1/renew", json!({"lease": lease})).await;
    assert_eq!((&gone["allowed"], &gone["expires_in_ms"]), (&json!(false), &Value::Null));

    let metrics = reqwest::get(url(&program, "/metrics")).await.expect("metrics").text().await.expect("text");
    assert!(metrics.contains(r#"tidegate_releases_total{limit="work",outcome="done"} 1"#), "{metrics}");
    assert!(!metrics.contains(r#"outcome="dropped"}"#), "a release that changed nothing is none");
    assert!(metrics.contains(r#"tidegate_decisions_total{limit="work",outcome="allowed"} 2"#), "{metrics}");
    assert!(metrics.contains(r#"outcome="denied",reason="concurrency"} 1"#), "{metrics}");
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_expires() {
    let (program, _config) = start_server();
    let admit = || post_ok(&program, "/v1/admit", json!({"limit": "short", "key": null}));
    let lease = admit().await["lease"].clone();
    let next = loop {
        let answer = admit().await;
        if answer["allowed"] == true {
            break answer;
        }
    };
    assert_ne!(next["lease"], lease);
    let late = post_ok(&program, "/v1/release", json!({"lease": lease})).await;
    assert_eq!(late["allowed"], false, "the place is somebody else's: {late}");
}

#[tokio::test]
async fn malformed_lease_requests_are_refused_and_change_nothing() {
    let (program, _config) = start_server();
    let lease = "5555555555555555.4.workt1";
    let cases = [
        ("/v1/admit", json!({"limit": "work"}), 400, "missing field `key`"),
        ("/v1/admit", json!({"limit": "work", "key": "a", "cost": 2}), 400, "unknown field `cost`"),
        ("/v1/admit", json!({"limit": "none", "key": "a"}), 404, "none"),
        ("/v1/admit", json!({"limit": "rate", "key": "a"}), 400, "rate"),
        ("/v1/admit", json!({"limit": "work", "key": "x".repeat(4_097)}), 400, "at most 4096"),
        ("/v1/limit", json!({"limit": "work", "key": "a"}), 400, "work"),
        ("/v1/renew", json!({"lease": "what"}), 400, "expected what /v1/admit has answered"),
        ("/v1/renew", json!({"lease": lease, "outcome": "done"}), 400, "unknown field `outcome`"),
        ("/v1/release", json!({"lease": lease, "outcome": "well"}), 400, "expected done, dropped or ignore"),
        ("/v1/release", json!({"lease": "5555555555555555.4.nonet1"}), 404, "none"),
        ("/v1/release", json!({"lease": "5555555555555555.4.ratet1"}), 400, "rate"),
        ("/v1/release", json!({}), 400, "missing field `lease`"),
    ];
    for (path, body, status, says) in cases {
        let (found, problem) = post(&program, path, &body).await;
        assert_eq!(found.as_u16(), status, "{path} {body}: {problem}");
        assert!(problem["detail"].as_str().expect("a detail").contains(says), "{path} {body}: {problem}");
    }
    assert_eq!(post_ok(&program, "/v1/check", json!({"limit": "work", "key": "a"})).await["remaining"], 2);
}
