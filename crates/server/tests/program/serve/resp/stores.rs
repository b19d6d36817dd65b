//! The Redis protocol on stores that do I/O.

use tidegate_servers::{Redis, required_env};

use super::{command, five_integers, replies, start_server};
use crate::serve::api_client::LONG_STORE_TIMEOUT;
use crate::serve::program::Program;
use crate::serve::write_file;

/// Starts a server with the built-in limits, on a store.
fn start_server_on(store: &str, name: &str) -> Program {
    let config = write_file(name, format!("{LONG_STORE_TIMEOUT}{}", include_str!("../../../../samples/demo.toml")));
    start_server(&["--config", &config, "--store", store])
}

#[test]
fn a_pipeline_on_a_remote_store_is_answered_in_order() {
    let file = std::env::temp_dir().join(format!("tidegate-resp-{}.db", std::process::id()));
    let program = start_server_on(&format!("sqlite:{}", file.display()), "resp-pipeline.toml");
    let mut pipeline = Vec::new();
    let mut expected = Vec::new();
    for taken in 1..=300 {
        pipeline.extend(command(&["CL.THROTTLE", "u1", "299", "1", "86400"]));
        expected.push((300 - taken).to_string());
        if taken % 100 == 0 {
            pipeline.extend(command(&["ECHO", &format!("behind {taken}")]));
            expected.push(format!("behind {taken}"));
        }
    }
    // The remainder of each decision, which is the third integer.
    let replies = replies(&program, pipeline);
    let lines: Vec<_> = replies.lines().collect();
    let found: Vec<_> = (0..lines.len())
        .filter_map(|at| match lines[at] {
            "*5" => Some(lines[at + 3].trim_start_matches(':')),
            line => line.starts_with("behind").then_some(line),
        })
        .collect();
    assert_eq!(found, expected);
    drop(program);
    for end in ["", "-wal", "-shm"] {
        // Only existing keys can be removed.
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
}

#[cfg(feature = "_real-servers")]
#[test]
fn a_broken_store_admits_or_errors_by_the_policy_of_the_limit() {
    let (server, cli) = (required_env("TIDEGATE_REDIS_SERVER"), required_env("TIDEGATE_REDIS_CLI"));
    let mut redis = Redis::start(server.as_ref(), cli.as_ref(), &[]).expect("a Redis");
    let program = start_server_on(&redis.url(), "resp-broken.toml");
    let both = "TG.LIMIT login u1\r\nTG.LIMIT api u1\r\n";
    assert_eq!(replies(&program, both).matches("*5\r\n:1\r\n").count(), 2);
    redis.kill();
    let unavailable = "-UNAVAILABLE the store cannot be asked, and the limit admits nobody without it\r\n";
    assert_eq!(replies(&program, both), format!("{unavailable}{}", five_integers([1, 20, 0, -1, 0])));
    assert_eq!(replies(&program, "CL.THROTTLE u1 15 30 60\r\n"), five_integers([0, 16, 0, -1, 0]));
}
