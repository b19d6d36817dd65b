//! What there is to try without a config.

use reqwest::Client;
use serde_json::Value;

use super::{serving, url};
use crate::program::Program;

#[tokio::test]
async fn there_is_something_to_try() {
    let program = Program::start(&[]);
    let get = |path| Client::new().get(url(&program, path)).send();
    let health: Value = get("/health").await.expect("an answer").json().await.expect("JSON");
    assert_eq!(health["status"], "ok");
    // Two in any second: of those that are asked one after the other until one is denied, at least two come before that.
    let mut admitted = 0;
    let denied = loop {
        let answer = get("/api/protected").await.expect("an answer");
        if answer.status() != 200 {
            break answer;
        }
        assert!(answer.headers().contains_key("ratelimit"));
        admitted += 1;
        assert_eq!(get("/api/data").await.expect("an answer").status(), 200, "never limited");
    };
    assert!(admitted >= 2);
    assert_eq!((denied.status().as_u16(), &denied.headers()["retry-after"]), (429, &"1".parse().expect("a value")));

    // A page of another site takes nothing.
    let from_elsewhere = Client::new().get(url(&program, "/api/protected")).header("sec-fetch-site", "cross-site");
    assert_eq!(from_elsewhere.send().await.expect("an answer").status(), 403);
}

#[tokio::test]
async fn with_a_config_it_is_not_there() {
    let (program, _config) = serving(&[]);
    for path in ["/api/protected", "/api/data"] {
        assert_eq!(reqwest::get(url(&program, path)).await.expect("an answer").status(), 404, "{path}");
    }
}
