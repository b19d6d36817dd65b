//! The routes of the demonstration, which is served without a config.

use reqwest::Client;
use serde_json::Value;

use super::{start_server, url};
use crate::serve::program::Program;

#[tokio::test]
async fn the_demonstration_has_a_free_and_a_limited_route() {
    let program = Program::start(&[]);
    let get = |path| Client::new().get(url(&program, path)).send();
    let health: Value = get("/health").await.expect("an answer").json().await.expect("JSON");
    assert_eq!(health["status"], "ok");
    // Two in any second: of successive requests, at least two are admitted before the first denial.
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
async fn demo_routes_do_not_exist_with_a_config() {
    let (program, _config) = start_server(&[]);
    for path in ["/api/protected", "/api/data"] {
        assert_eq!(reqwest::get(url(&program, path)).await.expect("an answer").status(), 404, "{path}");
    }
}

#[tokio::test]
async fn demo_routes_need_the_token() {
    let program = Program::start_with_env(&[], &[("TIDEGATE_TOKEN", "0123456789abcdef")]);
    for path in ["/api/protected", "/api/data"] {
        assert_eq!(reqwest::get(url(&program, path)).await.expect("an answer").status(), 401, "{path}");
    }
}
