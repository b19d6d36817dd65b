//! The example: a handler with a limit for each client.

use reqwest::blocking::{Client, Response};
use serde_json::{Value, json};
use tidegate_servers::{WorkerdStorage, required_env};

use crate::support::TestWorker;

fn greet(worker: &TestWorker, client: Option<&str>) -> Response {
    let mut request = Client::new().get(worker.url("/"));
    if let Some(client) = client {
        request = request.header("cf-connecting-ip", client);
    }
    request.header("x-forwarded-for", "198.51.100.7").send().unwrap()
}

#[test]
fn example_greets_each_client_five_times_and_then_denies_with_retry_after() {
    let worker =
        TestWorker::start_script(&required_env("TIDEGATE_EXAMPLE_WORKER"), WorkerdStorage::new().unwrap(), &json!({}));
    // Windows begin with the minute, so a client that crosses into the next one has five more requests.
    let statuses: Vec<_> = (0..11).map(|_| greet(&worker, Some("192.0.2.1"))).collect();
    assert_eq!(statuses[0].status(), 200);
    assert!(statuses[0].headers()["ratelimit-policy"].to_str().unwrap().contains(r#""greeting";q=5;w=60"#));
    let denied = statuses.into_iter().find(|response| response.status() == 429).expect("more than two windows' worth");
    assert!(denied.headers().contains_key("retry-after"), "{:?}", denied.headers());
    assert_eq!(denied.headers()["content-type"], "application/problem+json");
    let problem: Value = denied.json().unwrap();
    assert_eq!(problem["violated-policies"], json!(["greeting"]));
    assert_eq!(greet(&worker, Some("192.0.2.2")).text().unwrap(), "hello\n");
    assert_eq!(greet(&worker, Some("nonsense")).status(), 500, "a client without an address has no bucket");
}
