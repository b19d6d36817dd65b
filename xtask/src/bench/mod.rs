//! `cargo xtask bench`: benchmarks against other limiters, with the results written to `docs/book/src/explanation/performance.md`.

mod page;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::cargo::{TaskError, cargo, step};
use crate::servers::{Servers, peers};

/// The parts in the order of measurement.
const PARTS: [&str; 12] =
    ["speed", "scale", "footprint", "pauses", "permits", "redis", "postgres", "sqlite", "http", "serve", "pages", "ws"];

/// The parts that need servers.
const PARTS_WITH_SERVERS: [&str; 3] = ["redis", "postgres", "ws"];

/// Runs all parts, or one of them. The results of a whole part go into the page. Those of a selection within a part do
/// not.
pub(crate) fn run(arguments: &[String]) -> Result<(), TaskError> {
    let parts: Vec<&str> =
        PARTS.into_iter().filter(|part| arguments.first().is_none_or(|first| first == part)).collect();
    if parts.is_empty() {
        return Err(TaskError(format!("bench {}: expected one of {}", arguments[0], PARTS.join(", "))));
    }
    step("build", &mut cargo(["build", "--release", "--package", "tidegate-benches"]))?;
    let mut environment = Vec::new();
    if parts.contains(&"serve") || parts.contains(&"pages") {
        // The bench looks for the program in its own folder.
        step("tidegate", &mut cargo(["build", "--release", "--package", "tidegate-server"]))?;
    }
    if parts.contains(&"serve") {
        environment.extend(peers::environment()?);
    }
    let servers =
        if parts.iter().any(|part| PARTS_WITH_SERVERS.contains(part)) { Some(Servers::start_durable()?) } else { None };
    environment.extend(servers.iter().flat_map(Servers::environment));
    for part in parts {
        let rest = arguments.get(1..).unwrap_or_default();
        let mut command = cargo(["run", "--quiet", "--release", "--package", "tidegate-benches", "--", part]);
        let output = stream_output(command.args(rest).envs(environment.iter().cloned()))?;
        if rest.is_empty() {
            page::write_results(part, &output)?;
        }
    }
    Ok(())
}

/// Runs a command, prints its output line by line, and returns it.
fn stream_output(command: &mut Command) -> Result<String, TaskError> {
    let failed = |error: std::io::Error| TaskError(format!("the bench: {error}"));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut text = String::new();
    for line in child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
        let line = line.map_err(failed)?;
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(text) } else { Err(TaskError(format!("the bench ended: {status}"))) }
}
