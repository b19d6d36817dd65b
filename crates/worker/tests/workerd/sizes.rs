//! Large batches and keys. The storage takes at most two million bytes of a text.

use serde_json::{Value, json};

use crate::support::TestWorker;

const NOW: u64 = 1_700_006_400_000_000;

/// Long keys of characters that must be escaped, as many as a call takes.
fn keys() -> Vec<String> {
    (0..240).map(|n| format!("{n:03}{}", "|".repeat(4_080))).collect()
}

#[test]
fn all_or_nothing_works_with_long_keys() {
    let worker = TestWorker::with_variables(json!({"TIDEGATE_SHARDS": "1"}));
    let requests: Vec<_> = keys().iter().map(|key| json!({"limit": "login", "key": key})).collect();
    let body = json!({ "requests": requests }).to_string();
    for expected in [4, 3, 2, 1, 0] {
        let (status, all) = worker.post("/v1/all", body.clone());
        let reasons: Vec<_> = all["decisions"].as_array().unwrap().iter().map(|one| one["reason"].clone()).collect();
        assert_eq!((status, &all["allowed"]), (200, &json!(true)));
        assert!(reasons.iter().all(Value::is_null), "an outage: {}", reasons[0]);
        assert_eq!(all["decisions"][239]["remaining"], expected);
    }
    assert_eq!(worker.post("/v1/all", body).1["allowed"], false);
}

#[test]
fn long_keys_are_swept() {
    let worker = TestWorker::with_variables(json!({"TIDEGATE_SHARDS": "1"}));
    let quota = json!({"algorithm": "token_bucket", "rate": 1, "period_us": 1_000_000});
    for n in 0..5 {
        let name = |n: u64, m: u64| format!("{n}-{m}-{}", "x".repeat(4_000));
        let requests: Vec<_> =
            (0..240).map(|m| json!({"limit": "api", "key": name(n, m), "op": "limit", "quota": quota})).collect();
        let call = json!({"mode": "each", "requests": requests, "at_us": NOW}).to_string();
        assert_eq!(worker.post("/v1/apply", call).0, 200);
    }
    assert_eq!(worker.sweep_at(NOW), 1_200);
    assert_eq!(worker.sweep_at(NOW + 1_000_000), 0);
}
