//! `cargo xtask bench`: side by side with the peers.

use crate::cargo::{Failed, cargo, step};
use crate::servers::Servers;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failed> {
    let mut command = cargo(["run", "--release", "--package", "tidegate-benches", "--"]);
    command.args(arguments);
    if arguments.first().is_none_or(|part| part == "redis" || part == "postgres") {
        let servers = Servers::start()?;
        return step("bench", command.envs(servers.environment()));
    }
    step("bench", &mut command)
}
