//! Reloads of the config, observed over HTTP.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use super::{LIMITS, TempFile, post, url};
use crate::serve::get;
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

    // The server also notices it without a signal.
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

#[test]
fn config_that_became_a_pipe_a_device_or_huge_is_refused() {
    let config = TempFile::new(LIMITS);
    let program = Program::start(&["--config", config.path()]);
    let pipe = TempFile::new("");
    std::fs::remove_file(pipe.path()).expect("removed");
    assert!(Command::new("mkfifo").arg(pipe.path()).status().expect("mkfifo").success());
    let huge = TempFile::new("");
    std::fs::File::options().write(true).open(huge.path()).and_then(|file| file.set_len(1 << 40)).expect("sparse");

    for (path, expected) in [(pipe.path(), "not a file"), ("/dev/zero", "not a file"), (huge.path(), "too large")] {
        // The name now points to another file, as when Kubernetes switches a link.
        let link = format!("{}.link", config.path());
        symlink(path, &link).and_then(|()| std::fs::rename(&link, config.path())).expect("switched");
        program.signal("HUP");
        let said = program.wait_for_log("the new config is wrong, and the old one stays");
        assert!(said.contains(&format!("{}: {expected}", config.path())), "{path}: {said}");
        assert!(get(&program, "/metrics").contains("\ntidegate_config_reload_ok 0\n"), "{path}");
    }
    std::fs::remove_file(config.path()).expect("removed");
    config.write(LIMITS);
    program.wait_for_log("the new config is served");
    assert!(get(&program, "/metrics").contains("\ntidegate_config_reload_ok 1\n"));
}

/// A misspelt field can be an error for each of a million limits.
#[tokio::test]
async fn errors_of_a_config_in_log_and_dashboard_are_bounded() {
    let config = TempFile::new(LIMITS);
    let program = Program::start(&["--config", config.path()]);
    let fields: String = (0..1_000).map(|field| format!("f{field} = 1\n")).collect();
    config.write(&format!("{LIMITS}\n[defaults]\n{fields}"));
    let said = program.wait_for_log("the new config is wrong, and the old one stays");
    assert!(said.lines().count() == 102 && said.ends_with("\nand 900 more errors"), "{said}");
    let data = reqwest::get(url(&program, "/dashboard/data")).await.expect("asked").text().await.expect("text");
    assert!(data.contains("and 900 more errors") && !data.contains("f100:"), "{data}");
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
