//! The test program as a child process.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// A command that runs one test of this program, with `variable` set. The test sees by it that it is the child.
pub(crate) fn test_process(test: &str, variable: &str, value: impl AsRef<OsStr>) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]).env(variable, value).stdout(Stdio::piped());
    child
}
