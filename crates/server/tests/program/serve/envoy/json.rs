//! Envoy's rate limit request as JSON.

use serde_json::{Value, json};

use crate::serve::program::Program;
use crate::serve::write_file;

const RULES: &str = "
domain: shop
descriptors:
  - key: path
    rate_limit: {unit: year, requests_per_unit: 2, name: paths}
  - key: internal
    rate_limit: {unlimited: true}
";

fn start_server(name: &str) -> Program {
    Program::start(&["--config", &write_file(&format!("json-{name}.yaml"), RULES)])
}

/// Returns the status, the type and the body of the answer.
async fn post(program: &Program, body: impl ToString) -> (u16, String, Value) {
    let url = format!("http://{}/json", program.http.expect("a port"));
    let answer = reqwest::Client::new().post(url).body(body.to_string()).send().await.expect("an answer");
    let (status, kind) = (answer.status().as_u16(), answer.headers()["content-type"].to_str().unwrap().to_owned());
    let body = answer.bytes().await.expect("a body");
    (status, kind, serde_json::from_slice(&body).expect("JSON"))
}

fn path_descriptor(path: &str) -> Value {
    json!({"entries": [{"key": "path", "value": path}]})
}

/// Returns the remainder of the first limit; `None` for an error.
async fn remaining(program: &Program, body: Value) -> (u16, Value) {
    let (status, _, answer) = post(program, &body).await;
    (status, answer["statuses"][0]["limitRemaining"].clone())
}

#[tokio::test]
async fn json_requests_get_200_and_then_429_with_the_response() {
    let program = start_server("answers");
    let internal = json!({"entries": [{"key": "internal", "value": "x"}]});
    let request = json!({"domain": "shop", "descriptors": [path_descriptor("/login"), internal, {"entries": [{"key": "nobody"}]}]});
    for (left, status, code) in [(1, 200, "OK"), (0, 200, "OK"), (0, 429, "OVER_LIMIT")] {
        let (found, kind, mut answer) = post(&program, &request).await;
        assert_eq!((found, &*kind), (status, "application/json"), "{answer}");
        let until = answer["statuses"][0]["durationUntilReset"].take();
        let seconds = until.as_str().and_then(|until| until.strip_suffix('s')?.parse::<u64>().ok());
        assert!(seconds.is_some_and(|seconds| (1..=365 * 86_400).contains(&seconds)), "{until}");
        let limit = json!({"name": "paths", "requestsPerUnit": 2, "unit": "YEAR"});
        let expected = json!({
            "overallCode": code,
            "statuses": [
                {"code": code, "currentLimit": limit, "limitRemaining": left, "durationUntilReset": null},
                {"code": "OK", "limitRemaining": 4_294_967_295_u32},
                {"code": "OK", "limitRemaining": 0},
            ],
        });
        assert_eq!(answer, expected);
    }
}

#[tokio::test]
async fn names_are_read_in_either_case_and_numbers_as_text_too() {
    let program = start_server("cases");
    let limit = |requests: Value, unit: Value| json!({"requestsPerUnit": requests, "unit": unit});
    let own = |limit: Value, path: &str| json!({"domain": "shop", "descriptors": [{"entries": [{"key": "path", "value": path}], "limit": limit}]});
    for (body, expected) in [
        (json!({"domain": "shop", "descriptors": [path_descriptor("/a")], "hits_addend": 2}), 0),
        (json!({"domain": "shop", "descriptors": [path_descriptor("/b")], "hitsAddend": "2"}), 0),
        (json!({"domain": "shop", "descriptors": [path_descriptor("/c")], "hitsAddend": null}), 1),
        (json!({"domain": "shop", "descriptors": [{"entries": [{"key": "path"}], "hitsAddend": "2"}]}), 0),
        (json!({"domain": "shop", "descriptors": [{"entries": [{"key": "path", "value": "0"}], "hits_addend": 0}]}), 2),
        (
            json!({"domain": "shop", "descriptors": [{"entries": [{"key": "path", "value": "/a"}], "isNegativeHits": true}]}),
            1,
        ),
        (own(limit(json!(9), json!("DAY")), "/d"), 8),
        (own(limit(json!("9"), json!(4)), "/e"), 8),
        (own(json!({"requests_per_unit": 9, "unit": "day"}), "/f"), 8),
        (own(Value::Null, "/g"), 1),
    ] {
        assert_eq!(remaining(&program, body.clone()).await, (200, json!(expected)), "{body}");
    }
}

#[tokio::test]
async fn units_are_read_by_name_and_by_number() {
    let program = start_server("units");
    for (number, name) in (1..).zip(["SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"]) {
        for unit in [json!(number), json!(name)] {
            let limit = json!({"requestsPerUnit": 9, "unit": unit});
            let descriptor = json!({"entries": [{"key": "unit", "value": name}], "limit": limit});
            let (status, _, answer) = post(&program, json!({"domain": "shop", "descriptors": [descriptor]})).await;
            assert_eq!((status, &answer["statuses"][0]["currentLimit"]["unit"]), (200, &json!(name)), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_malformed_request_is_400_and_changes_nothing() {
    let program = start_server("bad");
    let bad =
        |descriptor: Value| json!({"domain": "shop", "descriptors": [path_descriptor("/a"), descriptor]}).to_string();
    let unit = |unit: Value| bad(json!({"entries": [], "limit": {"requestsPerUnit": 1, "unit": unit}}));
    for body in [
        String::new(),
        "{".to_owned(),
        "[]".to_owned(),
        "[\"shop\",[],0]".to_owned(),
        json!({"domain": "shop", "descriptors": [path_descriptor("/a")], "hits": 1}).to_string(),
        json!({"domain": "shop", "descriptors": [path_descriptor("/a")], "hits_addend": -1}).to_string(),
        json!({"domain": "shop", "descriptors": [path_descriptor("/a")], "hits_addend": 4_294_967_296_u64}).to_string(),
        json!({"domain": "shop", "descriptors": [path_descriptor("/a")], "hits_addend": "two"}).to_string(),
        json!({"domain": 7, "descriptors": [path_descriptor("/a")]}).to_string(),
        bad(json!({"entries": [{"key": "path", "value": 1}]})),
        bad(json!({"entries": [], "hits_addend": 1.5})),
        unit(json!("eon")),
        unit(json!(0)),
        unit(json!(8)),
    ] {
        let (status, kind, problem) = post(&program, &body).await;
        assert_eq!((status, &*kind), (400, "application/problem+json"), "{body}");
        assert_eq!(problem["status"], 400, "{body}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("expected")), "{body}: {problem}");
    }
    let (status, problem) = (413, post(&program, " ".repeat((1 << 20) + 1)).await);
    assert_eq!(problem.0, status);
    let result = remaining(&program, json!({"domain": "shop", "descriptors": [path_descriptor("/a")]})).await;
    assert_eq!(result, (200, json!(1)));
}

#[tokio::test]
async fn an_empty_request_is_500_as_by_upstream() {
    let program = start_server("empty");
    for (body, why) in [
        (json!({"descriptors": [path_descriptor("/a")]}), "rate limit domain must not be empty"),
        (json!({}), "rate limit domain must not be empty"),
        (json!({"domain": "shop"}), "rate limit descriptor list must not be empty"),
        (json!({"domain": "shop", "descriptors": []}), "rate limit descriptor list must not be empty"),
    ] {
        let (status, kind, problem) = post(&program, &body).await;
        assert_eq!((status, &*kind), (500, "application/problem+json"), "{body}");
        assert_eq!(problem["detail"], why, "{body}");
    }
}

/// A deny list holds for every other input of the client, and for every rule about its address.
#[tokio::test]
async fn a_key_on_the_deny_list_is_never_admitted() {
    let rules = "
domain: shop
descriptors:
  - key: remote_address
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 9}
    descriptors:
      - key: path
        rate_limit: {unit: year, requests_per_unit: 9}
  - key: pool
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 9}
  - key: shared
    value: 203.0.113.*
    share_threshold: true
    rate_limit: {unit: year, requests_per_unit: 9}
  - key: host
    descriptors:
      - key: remote_address
        descriptors:
          - key: path
            rate_limit: {unit: year, requests_per_unit: 9}
";
    write_file("json-deny.yaml", rules);
    let config = "[defaults]\ndeny = [\"203.0.113.7\"]\n[envoy]\nconfigs = [\"json-deny.yaml\"]\n";
    let program = Program::start(&["--config", &write_file("json-deny.toml", config)]);
    let long = format!("/?{}", "a".repeat(5_000));
    let entries = |entries: &[(&str, &str)]| {
        let entries: Vec<_> = entries.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        json!({"entries": entries})
    };
    for (address, status) in [("203.0.113.7", 429), ("203.0.113.8", 200)] {
        for descriptors in [
            vec![entries(&[("remote_address", address)])],
            vec![entries(&[("remote_address", address), ("path", "/")])],
            vec![entries(&[("remote_address", address), ("path", &long)])],
            vec![entries(&[("remote_address", address)]), entries(&[("pool", "x")])],
            vec![entries(&[("shared", address)])],
            vec![entries(&[("host", "192.0.2.1"), ("remote_address", address), ("path", &long)])],
        ] {
            let request = json!({"domain": "shop", "descriptors": descriptors});
            assert_eq!(post(&program, &request).await.0, status, "{address}: {request}");
        }
    }
}
