//! Bad input, which gets a clear error and stores nothing.

use reqwest::blocking::Client;
use serde_json::{Value, json};

use crate::support::TestWorker;

#[test]
fn bad_input_is_rejected_with_a_problem_and_stores_nothing() {
    let worker = TestWorker::start();
    let large = "x".repeat(1 << 20);
    let long = "x".repeat(5_000);
    let quota = r#"{"algorithm":"token_bucket","rate":10,"period_us":1000000}"#;
    let apply = |rest: &str| format!(r#"{{"mode":"each","requests":[{{"limit":"a","op":"limit",{rest}}}]}}"#);
    let cases = [
        ("/v1/limit", "{".to_owned(), 400),
        ("/v1/limit", "not json".to_owned(), 400),
        ("/v1/limit", r#"["login","u1",1]"#.to_owned(), 400),
        ("/v1/limit", r#"{"limit":"nobody","key":"u1"}"#.to_owned(), 404),
        ("/v1/limit", r#"{"limit":"login"}"#.to_owned(), 400),
        ("/v1/limit", r#"{"limit":"login","key":"u1","cost":0}"#.to_owned(), 400),
        ("/v1/limit", r#"{"limit":"login","key":"u1","cost":-1}"#.to_owned(), 400),
        ("/v1/limit", r#"{"limit":"login","key":"u1","cots":1}"#.to_owned(), 400),
        ("/v1/limit", json!({"limit": "login", "key": large}).to_string(), 413),
        ("/v1/limit", json!({"limit": "login", "key": long}).to_string(), 400),
        ("/v1/all", json!({"requests": []}).to_string(), 400),
        ("/v1/all", r#"{"requests":[{"limit":"login","key":"u1"},{"limit":"nobody","key":"u1"}]}"#.to_owned(), 404),
        ("/v1/release", r#"{"lease":"mine"}"#.to_owned(), 400),
        ("/v1/apply", json!({"key": large}).to_string(), 413),
        ("/v1/apply", apply(&format!(r#""key":"{long}","quota":{quota}"#)), 400),
        ("/v1/apply", apply(&format!(r#""key":"u1","cost":0,"quota":{quota}"#)), 400),
        ("/v1/apply", apply(r#""key":"u1","quota":{"algorithm":"moon","rate":1,"period_us":1000000}"#), 400),
        ("/v1/apply", apply(&format!(r#""key":"u%1","quota":{quota}"#)), 400),
        ("/v1/nothing", "{}".to_owned(), 404),
        ("/v1/limits", "{}".to_owned(), 405),
    ];
    for (path, body, expected) in cases {
        let (status, problem) = worker.post(path, body.clone());
        let body: String = body.chars().take(80).collect();
        assert_eq!(status, expected, "{path} {body}: {problem}");
        assert_eq!(problem["status"], expected, "{path} {body}: {problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 8), "{path} {body}: {problem}");
    }
    assert_eq!(worker.post("/v1/testing/sweep", "soon").0, 400);
    assert_eq!(worker.sweep_at(0), 0, "nothing is stored");
    assert_eq!(worker.login("u1").1["remaining"], 4, "and it serves all the same");
    assert_eq!(worker.sweep_at(0), 1);
}

#[test]
fn worker_without_a_token_rejects_every_client() {
    let limit = |worker: &TestWorker, token: Option<&str>| {
        let mut request = Client::new().post(worker.url("/v1/limit")).body(r#"{"limit":"login","key":"u1"}"#);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().unwrap();
        (response.status().as_u16(), response.json::<Value>().unwrap())
    };
    let worker = TestWorker::with_variables(json!({"TIDEGATE_OPEN": "false"}));
    let (status, problem) = limit(&worker, None);
    assert!(status == 403 && problem["detail"].as_str().unwrap().contains("TIDEGATE_TOKEN"), "{status}: {problem}");
    let token = "0123456789abcdef";
    let worker = worker.restart(json!({"TIDEGATE_OPEN": "false", "TIDEGATE_TOKEN": token}));
    assert_eq!(
        (limit(&worker, None).0, limit(&worker, Some("fedcba9876543210")).0, limit(&worker, Some(token)).0),
        (401, 401, 200)
    );
    assert_eq!(reqwest::blocking::get(worker.url("/healthz")).unwrap().status(), 200, "a health check needs no token");
}

#[test]
fn time_is_only_accepted_in_tests() {
    let worker = TestWorker::with_variables(json!({"TIDEGATE_TESTING": "false"}));
    let quota = json!({"algorithm": "token_bucket", "rate": 10, "period_us": 1_000_000});
    let request = json!({"limit": "api", "key": "u1", "op": "limit", "quota": quota});
    let (status, problem) =
        worker.post("/v1/apply", json!({"mode": "each", "requests": [request], "at_us": 1}).to_string());
    assert!(status == 400 && problem["detail"].as_str().unwrap().contains("at_us"), "{status}: {problem}");
    assert_eq!(worker.post("/v1/testing/sweep", "1").0, 404);
}
