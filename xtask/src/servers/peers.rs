//! Finds or installs the servers and load tools that the benchmark compares `tidegate serve` with.

use std::path::PathBuf;

use super::programs::find_on_path;
use super::{crates, debian};
use crate::cargo::TaskError;

const THROTTLECRAB_VERSION: &str = "0.4.40";

/// Returns the environment variables that tell the benchmark where the programs are.
pub(crate) fn environment() -> Result<Vec<(&'static str, String)>, TaskError> {
    let programs = [
        ("TIDEGATE_REDIS_SERVER", from_debian("redis-server", "redis-server")?),
        ("TIDEGATE_REDIS_BENCHMARK", from_debian("redis-benchmark", "redis-tools")?),
        ("TIDEGATE_WRK", from_debian("wrk", "wrk")?),
        ("TIDEGATE_THROTTLECRAB", throttlecrab()?),
    ];
    Ok(programs.into_iter().map(|(name, path)| (name, path.display().to_string())).collect())
}

/// Installs throttlecrab's server as its users do. It is built once, which takes minutes, and cached.
fn throttlecrab() -> Result<PathBuf, TaskError> {
    // Without protoc, the build leaves gRPC out.
    from_debian("protoc", "protobuf-compiler")?;
    Ok(crates::install("throttlecrab-server", THROTTLECRAB_VERSION, "release")?.join("throttlecrab-server"))
}

/// Returns a program from PATH, or else from one of Debian's packages.
fn from_debian(program: &str, package: &str) -> Result<PathBuf, TaskError> {
    if let Some(path) = find_on_path(program) {
        return Ok(path);
    }
    let advice = format!("install {program} (Debian and Ubuntu: apt-get install {package})");
    debian::install(program, &[package], &advice)?;
    find_on_path(program).ok_or_else(|| TaskError(format!("{program} is installed, but not on PATH")))
}
