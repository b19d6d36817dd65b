//! Real Redis clients: redis-cli, redis-benchmark, redis-py and ioredis.

use std::process::{Command, Output};

use tidegate_servers::required_env;

use super::start_server;
use crate::serve::program::Program;

fn output_text(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

fn resp_port(program: &Program) -> String {
    program.resp.expect("a port").port().to_string()
}

fn run_redis_cli(program: &Program, arguments: &[&str]) -> String {
    let mut cli = Command::new(required_env("TIDEGATE_REDIS_CLI"));
    let output = cli.args(["-p", &resp_port(program)]).args(arguments).output().expect("redis-cli");
    assert!(output.status.success(), "{arguments:?}: {}", output_text(&output));
    output_text(&output)
}

#[test]
fn redis_cli_reads_replies() {
    let program = start_server(&[]);
    assert_eq!(run_redis_cli(&program, &["PING"]), "PONG\n");
    assert_eq!(run_redis_cli(&program, &["CL.THROTTLE", "user123", "15", "30", "60"]), "0\n16\n15\n-1\n2\n");
    assert_eq!(run_redis_cli(&program, &["-3", "THROTTLE", "user123", "10", "10", "60"]), "1\n10\n9\n6\n0\n");
    assert_eq!(run_redis_cli(&program, &["-3", "TG.LIMIT", "api", "u1"]), "1\n20\n19\n-1\n100\n");
    assert!(run_redis_cli(&program, &["TG.LIMIT", "nope", "u1"]).starts_with("ERR unknown limit 'nope'"));
    assert!(run_redis_cli(&program, &["-3", "COMMAND", "DOCS"]).contains("cl.throttle"));
    assert!(run_redis_cli(&program, &["INFO"]).contains("connected_clients:1"));
}

#[test]
fn redis_benchmark_runs_without_errors() {
    let program = start_server(&[]);
    for pipeline in ["1", "16"] {
        let mut benchmark = Command::new(required_env("TIDEGATE_REDIS_BENCHMARK"));
        benchmark.args(["-p", &resp_port(&program), "-q", "-n", "2000", "-c", "10", "-P", pipeline]);
        let output = benchmark.args(["CL.THROTTLE", "user123", "15", "30", "60"]).output().expect("redis-benchmark");
        let said = output_text(&output);
        assert!(output.status.success() && said.contains("requests per second"), "{said}");
        assert!(!said.contains("WARNING") && !said.contains("rror"), "{said}");
    }
}

/// The scripts make their own assertions, and print `ok` at the end.
#[test]
fn redis_py_script_passes() {
    let program = start_server(&[]);
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", required_env("TIDEGATE_REDIS_PY")).env("PYTHONDONTWRITEBYTECODE", "1");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/serve/resp/clients/redis_py_client.py");
    let output = python.args([script, &resp_port(&program)]).output().expect("python3");
    assert_eq!(output_text(&output), "ok\n");
}

#[test]
fn ioredis_script_passes() {
    let program = start_server(&[]);
    let mut node = Command::new("node");
    node.env("NODE_PATH", required_env("TIDEGATE_IOREDIS"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/serve/resp/clients/ioredis_client.js");
    let output = node.args([script, &resp_port(&program)]).output().expect("node");
    assert_eq!(output_text(&output), "ok\n");
}
