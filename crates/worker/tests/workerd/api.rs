//! The paths of the API that the remote store does not use.

use reqwest::blocking::{Client, Response};
use serde_json::{Value, json};

use crate::support::TestWorker;

fn auth(worker: &TestWorker, query: &str, client: Option<&str>) -> Response {
    let mut request = Client::new().get(worker.url(&format!("/v1/auth{query}")));
    if let Some(client) = client {
        request = request.header("cf-connecting-ip", client);
    }
    request.send().unwrap()
}

#[test]
fn auth_decides_for_a_proxy() {
    let worker = TestWorker::start();
    let passed = auth(&worker, "?limit=login&key=u1&cost=4", None);
    assert_eq!(passed.status(), 204);
    assert!(passed.headers()["ratelimit"].to_str().unwrap().starts_with(r#""login";r=1;"#), "{:?}", passed.headers());
    let denied = auth(&worker, "?limit=login&key=u1&cost=2", None);
    assert_eq!(denied.status(), 429);
    assert!(denied.headers().contains_key("retry-after"), "{:?}", denied.headers());
    assert_eq!(denied.json::<Value>().unwrap()["violated-policies"], json!(["login"]));
    // Without a key, the client address is the key. It never equals an explicit key.
    for expected in [204, 204, 204, 204, 204, 429] {
        assert_eq!(auth(&worker, "?limit=login", Some("192.0.2.1")).status(), expected);
    }
    assert_eq!(auth(&worker, "?limit=login&key=192.0.2.1", None).status(), 204);
    assert_eq!(auth(&worker, "?limit=login", Some("192.0.2.2")).status(), 204);
    for (query, expected) in
        [("", 400), ("?limit=login", 400), ("?limit=nobody&key=u1", 404), ("?limit=login&key=u1&cost=0", 400)]
    {
        // An invalid address is no address. The test sends one because miniflare adds an address otherwise.
        let problem = auth(&worker, query, Some("nonsense"));
        let kind = problem.headers()["content-type"].to_str().unwrap();
        assert_eq!((problem.status().as_u16(), kind), (expected, "application/problem+json"), "{query}");
    }
}

#[test]
fn client_address_follows_the_config() {
    let config = r#"
        [http]
        trust_proxy = ["10.0.0.0/8"]
        ipv6_prefix = 128

        [limits.login]
        algorithm = "fixed_window"
        rate = 1
        period = "300d"
    "#;
    let worker = TestWorker::with_variables(json!({ "TIDEGATE_CONFIG": config }));
    let auth = |client: &str, forwarded: &str| {
        let request = Client::new().get(worker.url("/v1/auth?limit=login")).header("cf-connecting-ip", client);
        request.header("x-forwarded-for", forwarded).send().unwrap().status().as_u16()
    };
    // Two clients behind a trusted proxy, and one that claims to be.
    assert_eq!(
        [auth("10.0.0.1", "192.0.2.1"), auth("10.0.0.1", "192.0.2.2"), auth("10.0.0.1", "192.0.2.1")],
        [204, 204, 429]
    );
    assert_eq!([auth("192.0.2.9", "192.0.2.3"), auth("192.0.2.9", "192.0.2.4")], [204, 429]);
    // Neighbours of one network.
    assert_eq!([auth("2001:db8::1", ""), auth("2001:db8::2", ""), auth("2001:db8::1", "")], [204, 204, 429]);
}

#[test]
fn batch_is_decided_in_order_and_each_request_on_its_own() {
    let worker = TestWorker::start();
    let keys = ["u1", "u2", "u3", "u1", "u2", "u1"];
    let requests: Vec<_> = keys.iter().map(|key| json!({"limit": "login", "key": key, "cost": 2})).collect();
    let (status, answer) = worker.post("/v1/batch", json!({"requests": requests}).to_string());
    assert_eq!(status, 200, "{answer}");
    let decisions = answer["decisions"].as_array().unwrap();
    let actual: Vec<_> = decisions
        .iter()
        .map(|decision| (decision["allowed"] == true, decision["remaining"].as_u64().unwrap()))
        .collect();
    assert_eq!(actual, [(true, 3), (true, 3), (true, 3), (true, 1), (true, 1), (false, 1)]);
}

#[test]
fn limits_are_listed() {
    let worker = TestWorker::start();
    let limits: Value = reqwest::blocking::get(worker.url("/v1/limits")).unwrap().json().unwrap();
    let names: Vec<_> =
        limits["limits"].as_array().unwrap().iter().map(|limit| limit["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["login", "work"], "{limits}");
}
