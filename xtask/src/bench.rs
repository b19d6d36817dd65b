//! `cargo xtask bench`: side by side with the peers.

use crate::cargo::{Failed, cargo, step};
use crate::servers::{Servers, peers};

pub(crate) fn run(arguments: &[String]) -> Result<(), Failed> {
    let has = |part: &str| arguments.first().is_none_or(|first| first == part);
    let mut command = cargo(["run", "--release", "--package", "tidegate-benches", "--"]);
    command.args(arguments);
    if has("serve") {
        // The bench looks for the program where it is itself.
        step("tidegate", &mut cargo(["build", "--release", "--package", "tidegate-server"]))?;
        command.envs(peers::environment()?);
    }
    if has("redis") || has("postgres") || has("ws") {
        let servers = Servers::start()?;
        return step("bench", command.envs(servers.environment()));
    }
    step("bench", &mut command)
}
