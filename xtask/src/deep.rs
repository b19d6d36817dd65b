//! `cargo xtask deep`: longer runs of the randomized tests, of outages and of hostile load, loom, fuzzing, the soak test and the book.

use crate::cargo::{TaskError, cargo, step};
use crate::servers::Servers;
use crate::{book, fuzz, open_files, test};

/// The test programs that compare with a model. Only these need to be built.
const MODEL_TESTS: [&str; 9] =
    ["oracle", "memory_conformance", "redis", "sqlite", "postgres", "fairness", "two_tier", "program", "workerd"];

pub(crate) fn run() -> Result<(), TaskError> {
    open_files::raise_limit()?;
    test::check_packages_alone()?;
    book::build()?;
    let mut oracle = cargo(["test", "--release", "--workspace", "--all-features"]);
    oracle.args(MODEL_TESTS.iter().flat_map(|program| ["--test", program]));
    oracle.args(["--", "random_", "bound"]).env("TIDEGATE_ORACLE_SEEDS", "3000");
    let servers = Servers::start()?;
    step("oracle, 3,000 seeds a store", oracle.envs(servers.environment()))?;
    let mut outages = cargo(["test", "--release", "--package", "tidegate", "--all-features", "--test", "faults"]);
    outages.args(["--", "outages_below_the_bound"]).env("TIDEGATE_OUTAGES", "100");
    step("permits through 100 outages of Redis", outages.envs(servers.environment()))?;
    let mut floods =
        cargo(["test", "--release", "--package", "tidegate-server", "--all-features", "--test", "program"]);
    floods.args(["--", "flood_does_not_open", "--test-threads", "1"]).env("TIDEGATE_OVERLOADS", "4");
    step("limits under four times the load of their store", floods.envs(servers.environment()))?;
    let hostile = |seconds: &str, store: &str| {
        let mut hostile = cargo(["test", "--release", "--package", "tidegate-server", "--all-features"]);
        hostile.args(["--test", "program", "--", "--nocapture"]).arg(format!("hostile_load_on_{store}"));
        hostile.env("TIDEGATE_HOSTILE_SECONDS", seconds).envs(servers.environment());
        hostile
    };
    let seconds = std::env::var("TIDEGATE_HOSTILE_SECONDS").unwrap_or_else(|_| "3600".to_owned());
    step("hostile load, an hour", &mut hostile(&seconds, "memory"))?;
    step("hostile load on Redis, ten minutes", &mut hostile("600", "redis"))?;
    let mut moves = cargo(["test", "--release", "--package", "tidegate", "--all-features", "--test", "redis"]);
    moves.args(["--", "slot_moves"]).env("TIDEGATE_SLOT_MOVES", "50");
    step("decisions while a slot of Redis moves 50 times", moves.envs(servers.environment()))?;
    drop(servers);
    hostile_connections()?;
    let layers = ["test", "--package", "tidegate", "--test", "layer", "--test", "no_allocation"];
    step("layers without the feature macros", &mut cargo(layers))?;
    test::loom(4)?;
    fuzz::search()?;
    let soak = ["run", "--release", "--package", "tidegate-benches", "--", "soak"];
    step("soak: four threads, a table that is always full, two minutes", &mut cargo(soak))
}

/// How many connections an attacker has, and how many files a process needs for other things.
const HOSTILE_CONNECTIONS: u64 = 10_000;
const OTHER_FILES: u64 = 500;

/// Clients that have the program keep all it will: for each kind a line with its memory, and the latency of other clients.
fn hostile_connections() -> Result<(), TaskError> {
    let connections = open_files::raise_limit_towards(HOSTILE_CONNECTIONS + OTHER_FILES)? - OTHER_FILES;
    let mut hostile =
        cargo(["test", "--release", "--package", "tidegate-server", "--all-features", "--test", "program"]);
    // One at a time, so that each has the cores and the ports for itself.
    hostile.args(["--", "--nocapture", "--test-threads", "1", "hostile_"]);
    hostile.env("TIDEGATE_HOSTILE_CONNECTIONS", connections.to_string());
    step(&format!("memory for {connections} hostile connections of each kind"), &mut hostile)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::MODEL_TESTS;

    /// Returns all files below a folder.
    fn files_below(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn every_test_with_a_seed_count_is_run() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let mut readers = Vec::new();
        for tests in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("tests")) {
            for file in if tests.is_dir() { files_below(&tests) } else { Vec::new() } {
                if fs::read(&file).unwrap().windows(21).any(|text| text == b"TIDEGATE_ORACLE_SEEDS") {
                    let program = file.strip_prefix(&tests).unwrap().iter().next().unwrap();
                    readers.push(program.to_str().unwrap().trim_end_matches(".rs").to_owned());
                }
            }
        }
        assert!(readers.len() > 5, "{readers:?}");
        assert!(readers.iter().all(|program| MODEL_TESTS.contains(&&**program)), "{readers:?}");
    }
}
