//! Real clients.

use std::process::{Command, Output};

use tidegate_servers::variable;

use super::serve;
use crate::serve::program::Program;

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

fn port(program: &Program) -> String {
    program.resp.expect("a port").port().to_string()
}

fn cli(program: &Program, arguments: &[&str]) -> String {
    let mut cli = Command::new(variable("TIDEGATE_REDIS_CLI"));
    let output = cli.args(["-p", &port(program)]).args(arguments).output().expect("redis-cli");
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    said(&output)
}

#[test]
fn redis_cli() {
    let program = serve(&[]);
    assert_eq!(cli(&program, &["PING"]), "PONG\n");
    assert_eq!(cli(&program, &["CL.THROTTLE", "user123", "15", "30", "60"]), "0\n16\n15\n-1\n2\n");
    assert_eq!(cli(&program, &["-3", "THROTTLE", "user123", "10", "10", "60"]), "1\n10\n9\n6\n0\n");
    assert_eq!(cli(&program, &["-3", "TG.LIMIT", "api", "u1"]), "1\n20\n19\n-1\n100\n");
    assert!(cli(&program, &["TG.LIMIT", "nope", "u1"]).starts_with("ERR unknown limit 'nope'"));
    assert!(cli(&program, &["-3", "COMMAND", "DOCS"]).contains("cl.throttle"));
    assert!(cli(&program, &["INFO"]).contains("connected_clients:1"));
}

#[test]
fn redis_benchmark() {
    let program = serve(&[]);
    for pipeline in ["1", "16"] {
        let mut benchmark = Command::new(variable("TIDEGATE_REDIS_BENCHMARK"));
        benchmark.args(["-p", &port(&program), "-q", "-n", "2000", "-c", "10", "-P", pipeline]);
        let output = benchmark.args(["CL.THROTTLE", "user123", "15", "30", "60"]).output().expect("redis-benchmark");
        let said = said(&output);
        assert!(output.status.success() && said.contains("requests per second"), "{said}");
        assert!(!said.contains("WARNING") && !said.contains("rror"), "{said}");
    }
}

/// The scripts assert by themselves, and say `ok` at the end.
#[test]
fn redis_py() {
    let program = serve(&[]);
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", variable("TIDEGATE_REDIS_PY")).env("PYTHONDONTWRITEBYTECODE", "1");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/serve/resp/clients/ask.py");
    let output = python.args([script, &port(&program)]).output().expect("python3");
    assert_eq!(said(&output), "ok\n");
}

#[test]
fn ioredis() {
    let program = serve(&[]);
    let mut node = Command::new("node");
    node.env("NODE_PATH", variable("TIDEGATE_IOREDIS"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/serve/resp/clients/ask.js");
    let output = node.args([script, &port(&program)]).output().expect("node");
    assert_eq!(said(&output), "ok\n");
}
