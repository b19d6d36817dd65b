//! How many objects there are cannot be changed by accident.

use serde_json::json;

use crate::edge::Edge;

#[test]
fn another_number_of_objects_is_refused_and_says_both() {
    let edge = Edge::start();
    assert_eq!(edge.login("u1").1["remaining"], 4);
    let edge = edge.restarted(json!({"TIDEGATE_SHARDS": "64"}));
    // Most of these have never been asked for, nor have their objects.
    for key in ["u1", "u2", "u3", "somebody", "somebody else"] {
        for path in ["/v1/limit", "/v1/check"] {
            let (status, problem) = edge.post(path, json!({"limit": "login", "key": key}).to_string());
            let detail = problem["detail"].as_str().unwrap();
            assert_eq!(status, 500, "{key}: {detail}");
            assert!(detail.contains("counts 64 objects") && detail.contains("live in 128"), "{key}: {detail}");
        }
    }
    let requests = json!({"requests": [{"limit": "login", "key": "u1"}]}).to_string();
    let (_, batch) = edge.post("/v1/batch", requests);
    assert_eq!(batch["decisions"][0]["status"], 500, "{batch}");
    // The store that asks it is told as well, and that a retry does not help.
    let request = json!({"limit": "api", "key": "u1", "op": "check", "quota": {"algorithm": "sliding_log", "rate": 1, "period_us": 1_000_000}});
    let (_, answer) = edge.post("/v1/apply", json!({"mode": "each", "requests": [request]}).to_string());
    let error = &answer["decisions"][0]["error"];
    assert_eq!((&error["kind"], &error["retryable"]), (&json!("unsupported"), &json!(false)), "{answer}");
    // Set back, it goes on where it was.
    let edge = edge.restarted(json!({}));
    assert_eq!(edge.login("u1").1["remaining"], 3);
}

#[test]
fn looking_settles_nothing() {
    let edge = Edge::start();
    let (status, decision) = edge.post("/v1/check", r#"{"limit":"login","key":"u1"}"#);
    assert_eq!((status, &decision["remaining"]), (200, &json!(5)));
    let edge = edge.restarted(json!({"TIDEGATE_SHARDS": "64"}));
    assert_eq!(edge.login("u1").1["remaining"], 4, "nothing was written, so nothing was settled");
}
