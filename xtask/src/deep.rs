//! `cargo xtask deep`: the longer runs, bounded.

use crate::cargo::{Failed, cargo, step};
use crate::servers::Servers;
use crate::{fuzz, test};

/// The test programs that compare with a model: others would only have to be built.
const COMPARE: [&str; 8] =
    ["oracle", "memory_conformance", "redis", "sqlite", "postgres", "fairness", "serve", "workerd"];

pub(crate) fn run() -> Result<(), Failed> {
    let mut oracle = cargo(["test", "--release", "--workspace", "--all-features"]);
    oracle.args(COMPARE.iter().flat_map(|program| ["--test", program]));
    oracle.args(["--", "random_", "bound"]).env("TIDEGATE_ORACLE_SEEDS", "3000");
    let servers = Servers::start()?;
    step("oracle, 3,000 seeds a store", oracle.envs(servers.environment()))?;
    drop(servers);
    test::loom(4)?;
    fuzz::search()?;
    let soak = ["run", "--release", "--package", "tidegate-benches", "--", "soak"];
    step("soak: four threads, a table that is always full, two minutes", &mut cargo(soak))
}
