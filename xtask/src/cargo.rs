//! Runs cargo, one named step at a time, and asks rustc for its target and version.

use std::fmt;
use std::process::Command;
use std::time::Instant;

/// The error of a task, as the message to print.
#[derive(Debug)]
pub(crate) struct TaskError(pub(crate) String);

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for TaskError {
    fn from(message: String) -> Self {
        TaskError(message)
    }
}

/// Returns a cargo command, with the cargo that runs this program.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = tidegate_servers::cargo();
    command.args(arguments);
    command
}

/// Runs a step: prints its name, its output and its time.
#[allow(clippy::disallowed_methods)] // the time is for the reader only
pub(crate) fn step(name: &str, command: &mut Command) -> Result<(), TaskError> {
    println!("\n== {name}");
    let start = Instant::now();
    let status = command.status().map_err(|error| TaskError(format!("{name}: cannot be started: {error}")))?;
    if !status.success() {
        return Err(TaskError(format!("{name} failed ({status}): {command:?}")));
    }
    println!("== {name}: ok, {:.0?}", start.elapsed());
    Ok(())
}

/// Runs a command, and returns its output if it succeeds.
pub(crate) fn output_of(command: &mut Command) -> Result<String, TaskError> {
    let output = command.output().map_err(|error| TaskError(format!("{:?}: {error}", command.get_program())))?;
    if !output.status.success() {
        return Err(TaskError(format!("{command:?} ({}): {}", output.status, String::from_utf8_lossy(&output.stderr))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the target that rustc builds for by default.
pub(crate) fn host_target() -> Result<String, TaskError> {
    let output = rustc_info()?;
    let host = output.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| TaskError(format!("rustc -vV names no host: {output}")))
}

/// Returns the version of rustc, as in `1.95.0 (59807616e 2026-04-14)`.
pub(crate) fn rustc_version() -> Result<String, TaskError> {
    let output = rustc_info()?;
    let version = output.lines().find_map(|line| line.strip_prefix("rustc "));
    version.map(str::to_owned).ok_or_else(|| TaskError(format!("rustc -vV names no version: {output}")))
}

fn rustc_info() -> Result<String, TaskError> {
    output_of(Command::new("rustc").arg("-vV"))
}
