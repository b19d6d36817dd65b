//! `cargo xtask bench`: side by side with the peers.

use crate::cargo::{Failed, cargo, step};

pub(crate) fn run(arguments: &[String]) -> Result<(), Failed> {
    let mut command = cargo(["run", "--release", "--package", "tidegate-benches", "--"]);
    command.args(arguments);
    step("bench", &mut command)
}
