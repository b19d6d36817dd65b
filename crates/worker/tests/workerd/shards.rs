//! Protection against an accidental change of the number of objects.

use serde_json::json;

use crate::support::TestWorker;

#[test]
fn other_number_of_objects_is_rejected_with_both_numbers() {
    let worker = TestWorker::start();
    assert_eq!(worker.login("u1").1["remaining"], 4);
    let worker = worker.restart(json!({"TIDEGATE_SHARDS": "64"}));
    // Most of these keys and their objects are new.
    for key in ["u1", "u2", "u3", "somebody", "somebody else"] {
        for path in ["/v1/limit", "/v1/check"] {
            let (status, problem) = worker.post(path, json!({"limit": "login", "key": key}).to_string());
            let detail = problem["detail"].as_str().unwrap();
            assert_eq!(status, 500, "{key}: {detail}");
            assert!(detail.contains("counts 64 objects") && detail.contains("live in 128"), "{key}: {detail}");
        }
    }
    let requests = json!({"requests": [{"limit": "login", "key": "u1"}]}).to_string();
    let (_, batch) = worker.post("/v1/batch", requests);
    assert_eq!(batch["decisions"][0]["status"], 500, "{batch}");
    // The remote store gets the error, too, as one that is not retryable.
    let request = json!({"limit": "api", "key": "u1", "op": "check", "quota": {"algorithm": "sliding_log", "rate": 1, "period_us": 1_000_000}});
    let (_, answer) = worker.post("/v1/apply", json!({"mode": "each", "requests": [request]}).to_string());
    let error = &answer["decisions"][0]["error"];
    assert_eq!((&error["kind"], &error["retryable"]), (&json!("unsupported"), &json!(false)), "{answer}");
    // With the old number, the state is still there.
    let worker = worker.restart(json!({}));
    assert_eq!(worker.login("u1").1["remaining"], 3);
}

#[test]
fn check_does_not_set_the_number_of_objects() {
    let worker = TestWorker::start();
    let (status, decision) = worker.post("/v1/check", r#"{"limit":"login","key":"u1"}"#);
    assert_eq!((status, &decision["remaining"]), (200, &json!(5)));
    let worker = worker.restart(json!({"TIDEGATE_SHARDS": "64"}));
    assert_eq!(worker.login("u1").1["remaining"], 4, "a check writes nothing, so the number was not set");
}
