//! Running cargo, one named step at a time.

use std::fmt;
use std::process::Command;
use std::time::Instant;

/// A step that did not succeed.
pub(crate) struct Failed(pub(crate) String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Failed {
    fn from(what: String) -> Self {
        Failed(what)
    }
}

/// A cargo command, with the cargo that runs this program.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = tidegate_servers::cargo();
    command.args(arguments);
    command
}

/// Runs a step: says what, shows its output, says how long it took.
#[allow(clippy::disallowed_methods)] // how long a step took is for the reader, nothing depends on it
pub(crate) fn step(name: &str, command: &mut Command) -> Result<(), Failed> {
    println!("\n== {name}");
    let start = Instant::now();
    let status = command.status().map_err(|error| Failed(format!("{name}: cannot be started: {error}")))?;
    if !status.success() {
        return Err(Failed(format!("{name} failed ({status}): {command:?}")));
    }
    println!("== {name}: ok, {:.0?}", start.elapsed());
    Ok(())
}

/// What a program says, when it succeeds.
pub(crate) fn said(command: &mut Command) -> Result<String, Failed> {
    let output = command.output().map_err(|error| Failed(format!("{:?}: {error}", command.get_program())))?;
    if !output.status.success() {
        return Err(Failed(format!("{command:?} ({}): {}", output.status, String::from_utf8_lossy(&output.stderr))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
