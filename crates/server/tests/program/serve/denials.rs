//! Denials in the log.

use serde_json::Value;

use super::{LIMITS, Program, post_limit, write_file};

/// Returns the log lines about denials, after `times` requests of one key.
fn denial_lines(program: Program, key: &str, times: usize) -> Vec<Value> {
    (0..times).for_each(|_| drop(post_limit(&program, "login", key)));
    let (_, log) = program.stop();
    let lines = log.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["message"].as_str().is_some_and(|message| message.starts_with("denied"))).collect()
}

#[test]
fn a_denial_is_logged_without_the_key() {
    let program = Program::start(&["--config", &write_file("log-hash.toml", LIMITS)]);
    let lines = denial_lines(program, "mallory", 1);
    assert_eq!(lines.len(), 1);
    let line = &lines[0];
    assert_eq!((&line["level"], &line["limit"], &line["reason"]), (&"INFO".into(), &"login".into(), &"deny".into()));
    let key = line["key"].as_str().expect("a text");
    assert!(key.starts_with('#') && key.len() == 13, "{key}");
    assert!(!line.to_string().contains("mallory"));
}

#[test]
fn a_key_is_logged_in_clear_on_request() {
    let program = Program::start(&["--log-keys", "--config", &write_file("log-keys.toml", LIMITS)]);
    assert_eq!(denial_lines(program, "mallory", 1)[0]["key"], "mallory");
}

#[test]
fn a_flood_of_denials_is_logged_as_a_few_lines_and_a_count() {
    let program = Program::start(&["--config", &write_file("log-flood.toml", LIMITS)]);
    let times = 300;
    let lines = denial_lines(program, "mallory", times);
    let left_out: u64 = lines.iter().filter_map(|line| line["left_out"].as_u64()).sum();
    let logged = lines.iter().filter(|line| line["left_out"].is_null()).count();
    assert!(logged < times / 2, "{logged} of {times} were logged one by one");
    assert_eq!(logged as u64 + left_out, times as u64, "each is logged or counted");
}
