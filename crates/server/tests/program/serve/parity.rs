//! Parity: this server and the Worker give the same responses to the same requests.

use reqwest::Method;
use reqwest::blocking::Client;
use serde_json::{Value, json};
use tidegate_servers::{Workerd, WorkerdStorage, required_env};

use crate::serve::program::Program;
use crate::serve::write_file;

const LIMITS: &str = r#"
[limits.login]
algorithm = "fixed_window"
rate = 5
period = "300d"

[limits.bucket]
algorithm = "token_bucket"
rate = 10
period = "300d"
capacity = 3

[limits.slow]
algorithm = "sliding_window"
rate = 4
period = "300d"

[limits.log]
algorithm = "sliding_log"
rate = 2
period = "300d"

[limits.work]
algorithm = "concurrency"
capacity = 2
ttl = "1h"
"#;

/// A response: its status, the headers that clients read, and its body.
type ObservedResponse = (u16, Vec<(String, String)>, Value);

/// The headers that matter to a client, in the order of comparison.
const HEADERS: [&str; 7] =
    ["content-type", "allow", "www-authenticate", "ratelimit", "ratelimit-policy", "retry-after", "cache-control"];

fn send(url: &str, method: &Method, path: &str, body: &str) -> ObservedResponse {
    let request = Client::new().request(method.clone(), format!("{url}{path}"));
    let request = if body.is_empty() { request } else { request.body(body.to_owned()) };
    let response = request.send().expect("sent");
    let status = response.status().as_u16();
    let header = |name: &str| {
        let values: Vec<_> =
            response.headers().get_all(name).iter().map(|value| value.to_str().expect("text")).collect();
        let values = values.join(", ");
        // Seconds pass between the two servers.
        let comparable = match name {
            "retry-after" if !values.is_empty() => "some".to_owned(),
            "ratelimit" => values.split(';').filter(|part| !part.starts_with("t=")).collect::<Vec<_>>().join(";"),
            _ => values.to_lowercase().replace("; charset=utf-8", ""),
        };
        (name.to_owned(), comparable)
    };
    let headers = HEADERS.map(header).to_vec();
    let text = response.text().expect("a body");
    let mut body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    mask_varying_fields(&mut body);
    (status, headers, body)
}

/// Masks the fields that differ in every run: milliseconds and lease ids.
fn mask_varying_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match name.as_str() {
                    "lease" => *field = json!("some"),
                    name if (name.ends_with("_ms") || name.ends_with("_us")) && field.is_number() => {
                        *field = json!("some")
                    }
                    _ => mask_varying_fields(field),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(mask_varying_fields),
        _ => {}
    }
}

fn parity_requests() -> Vec<(Method, String, String)> {
    let mut questions = Vec::new();
    let mut post = |path: &str, body: Value| questions.push((Method::POST, path.to_owned(), body.to_string()));
    for limit in ["login", "bucket", "slow", "log"] {
        for op in ["limit", "check", "limit", "limit", "limit", "refund", "limit", "reserve", "reset", "check"] {
            post(&format!("/v1/{op}"), json!({"limit": limit, "key": "u1"}));
        }
        post("/v1/limit", json!({"limit": limit, "key": "u2", "cost": 1_000}));
        post("/v1/limit", json!({"limit": limit, "key": ["t|1", "u%2"], "cost": 2}));
    }
    for _ in 0..3 {
        post("/v1/admit", json!({"limit": "work", "key": "t1"}));
    }
    for path in ["/v1/renew", "/v1/release"] {
        post(path, json!({"lease": "9d2c41b07a5e63f8.4.workt1"}));
        post(path, json!({"lease": "mine"}));
    }
    let several = json!({"requests": [{"limit": "login", "key": "u7"}, {"limit": "slow", "key": "u7", "cost": 3}]});
    for _ in 0..2 {
        post("/v1/all", several.clone());
        post("/v1/batch", several.clone());
    }
    for path in ["/v1/all", "/v1/batch"] {
        post(path, json!({"requests": []}));
        post(path, json!({"requests": [{"limit": "login", "key": "u1"}, {"limit": "nobody", "key": "u1"}]}));
        post(path, json!({"requests": [{"limit": "login", "key": "u1", "cost": 0}]}));
        post(
            path,
            json!({"requests": (0..1_001).map(|n| json!({"limit": "login", "key": n.to_string()})).collect::<Vec<_>>()}),
        );
    }
    let quota = json!({"algorithm": "token_bucket", "rate": 2, "period_us": 86_400_000_000_u64});
    for (mode, op, key) in
        [("each", "limit", "u1"), ("all", "limit", "u1"), ("each", "limit", "u1"), ("each", "check", "u%1")]
    {
        let request = json!({"prefix": "p", "limit": "mine", "key": key, "op": op, "quota": quota});
        post("/v1/apply", json!({"mode": mode, "requests": [request]}));
    }
    post("/v1/apply", json!({"mode": "each", "requests": [], "at_us": 1}));
    for wrong in [
        json!({"limit": "nobody", "key": "u1"}),
        json!({"limit": "login"}),
        json!({"limit": "login", "key": []}),
        json!({"limit": "login", "key": 7}),
        json!({"limit": "login", "key": "u1", "cost": 0}),
        json!({"limit": "login", "key": "u1", "cost": -1}),
        json!({"limit": "login", "key": "u1", "cots": 1}),
        json!({"limit": "login", "key": "x".repeat(5_000)}),
        json!({"limit": "login", "key": "x".repeat(100_000)}),
        json!({"limit": "work", "key": "u1"}),
        json!(["login", "u1", 1]),
    ] {
        post("/v1/limit", wrong);
    }
    questions.push((Method::POST, "/v1/limit".to_owned(), "{".to_owned()));
    for path in [
        "/healthz",
        "/readyz",
        "/v1/limits",
        "/v1/nothing",
        "/v1/limit",
        "/v1/auth",
        "/v1/auth?limit=login&key=u9&cost=3",
        "/v1/auth?limit=login&key=u9&cost=3",
        "/v1/auth?limit=nobody&key=u9",
        "/v1/auth?limit=login&key=u9&cost=0",
    ] {
        questions.push((Method::GET, path.to_owned(), String::new()));
    }
    questions.push((Method::HEAD, "/healthz".to_owned(), String::new()));
    questions.push((Method::HEAD, "/v1/limits".to_owned(), String::new()));
    questions.push((Method::DELETE, "/v1/limits".to_owned(), String::new()));
    questions.push((Method::PUT, "/v1/limit".to_owned(), "{}".to_owned()));
    questions
}

#[test]
fn worker_and_server_give_equal_responses() {
    let config = write_file("parity.toml", LIMITS);
    let server = Program::start(&["--config", &config, "--grpc", "off", "--resp", "off"]);
    let variables = json!({"TIDEGATE_CONFIG": LIMITS, "TIDEGATE_OPEN": "true", "TIDEGATE_APART": "refund"}).to_string();
    let storage = WorkerdStorage::new().expect("a folder");
    let (miniflare, worker) = (required_env("TIDEGATE_MINIFLARE"), required_env("TIDEGATE_WORKER"));
    let worker = Workerd::start(&miniflare, &worker, storage, &variables).expect("workerd");
    let mut different = Vec::new();
    for (method, path, body) in parity_requests() {
        let (from_server, from_worker) = (
            send(&crate::serve::api_client::url(&server, ""), &method, &path, &body),
            send(worker.url(), &method, &path, &body),
        );
        if from_server != from_worker {
            let body: String = body.chars().take(100).collect();
            different.push(format!("{method} {path} {body}\n  server: {from_server:?}\n  worker: {from_worker:?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
