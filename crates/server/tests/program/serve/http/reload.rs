//! Reloads of the config, observed over HTTP.

use std::process::Command;

use serde_json::json;

use super::{LIMITS, TempFile, post};
use crate::serve::program::Program;

async fn remaining(program: &Program, limit: &str) -> u64 {
    let body = json!({"limit": limit, "key": "u"}).to_string();
    post(program, "/v1/check", &body).await.1["remaining"].as_u64().expect("a number")
}

#[tokio::test]
async fn a_reload_serves_the_new_config_and_resets_no_key() {
    let config = TempFile::new(LIMITS);
    let program = Program::start(&["--config", config.path()]);
    post(&program, "/v1/limit", r#"{"limit":"five","key":"u","cost":4}"#).await;

    // Ten a day instead of five: four of them are used. A limit is new, and one is gone.
    config.write(&LIMITS.replace("rate = 5", "rate = 10").replace("limits.two", "limits.three"));
    program.signal("HUP");
    program.wait_for_log("the new config is served");
    assert_eq!((remaining(&program, "five").await, remaining(&program, "three").await), (6, 2));
    assert_eq!(post(&program, "/v1/check", r#"{"limit":"two","key":"u"}"#).await.0, 404);

    // A wrong config is reported with its position, and changes nothing.
    config.write(&LIMITS.replace("rate = 5", "rate = 0"));
    let said = program.wait_for_log("the new config is wrong, and the old one stays");
    assert!(said.contains("toml:9:8: limits.five.rate: found 0"), "{said}");
    assert_eq!(remaining(&program, "five").await, 6);

    // And it is noticed without a signal, too.
    config.write(LIMITS);
    program.wait_for_log("the new config is served");
    assert_eq!((remaining(&program, "five").await, remaining(&program, "two").await), (1, 2));
}

#[tokio::test]
async fn a_file_named_by_a_refused_config_is_watched() {
    let config = TempFile::new(LIMITS);
    let program = Program::start(&["--config", config.path()]);
    let rules = TempFile::new("domain: shop\n");
    let name = rules.0.file_name().and_then(|name| name.to_str()).expect("text");
    rules.write("domain: shop\ndescriptors: [{key: k, rate_limit: {unit: eon, requests_per_unit: 1}}]\n");
    config.write(&format!("{LIMITS}\n[envoy]\nconfigs = [\"{name}\"]\n"));
    program.wait_for_log("the new config is wrong, and the old one stays");
    rules.write("domain: shop\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 3}}]\n");
    program.wait_for_log("the new config is served");
    assert_eq!(remaining(&program, "shop.k").await, 3);
}

/// As a file system is that hangs.
#[tokio::test]
async fn an_unreadable_config_does_not_delay_the_shutdown() {
    let config = TempFile::new(LIMITS);
    let program = Program::start(&["--config", config.path()]);
    std::fs::remove_file(config.path()).expect("removed");
    assert!(Command::new("mkfifo").arg(config.path()).status().expect("mkfifo").success());
    program.wait_for_log("the config has changed: it is read again");
    let (status, log) = tokio::task::spawn_blocking(|| program.stop()).await.expect("it ends");
    assert!(status.success(), "{log:?}");
}

#[tokio::test]
async fn a_new_prefix_is_logged() {
    let config = TempFile::new(LIMITS);
    let program = Program::start(&["--config", config.path()]);
    post(&program, "/v1/limit", r#"{"limit":"two","key":"u"}"#).await;
    config.write(&format!("{LIMITS}\n[defaults]\nprefix = \"other\"\n"));
    program.wait_for_log("the prefix is another");
    program.wait_for_log("the new config is served");
    assert_eq!(remaining(&program, "two").await, 2);
}
