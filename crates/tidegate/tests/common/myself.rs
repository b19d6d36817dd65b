//! The test program itself as another process.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// This test program, running one test of it and no other, which finds `variable` set and so knows what it is.
pub(crate) fn myself(test: &str, variable: &str, value: impl AsRef<OsStr>) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]).env(variable, value).stdout(Stdio::piped());
    child
}
