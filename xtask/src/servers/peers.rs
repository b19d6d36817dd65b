//! The peers of `tidegate serve` in the bench, and the load tools.

use std::path::PathBuf;

use super::programs::on_path;
use super::{crates, debian};
use crate::cargo::Failed;

const THROTTLECRAB: &str = "0.4.40";

/// The environment variables by which the bench finds them.
pub(crate) fn environment() -> Result<Vec<(&'static str, String)>, Failed> {
    let programs = [
        ("TIDEGATE_REDIS_SERVER", from_debian("redis-server", "redis-server")?),
        ("TIDEGATE_REDIS_BENCHMARK", from_debian("redis-benchmark", "redis-tools")?),
        ("TIDEGATE_WRK", from_debian("wrk", "wrk")?),
        ("TIDEGATE_THROTTLECRAB", throttlecrab()?),
    ];
    Ok(programs.into_iter().map(|(name, path)| (name, path.display().to_string())).collect())
}

/// throttlecrab's server, as its users install it; built once, which takes minutes, and kept.
fn throttlecrab() -> Result<PathBuf, Failed> {
    // Without it, the build leaves gRPC out.
    let protoc = || from_debian("protoc", "protobuf-compiler").map(drop);
    Ok(crates::install("throttlecrab-server", THROTTLECRAB, protoc)?.join("throttlecrab-server"))
}

/// A program that is on PATH, or else in one of Debian's packages.
fn from_debian(program: &str, package: &str) -> Result<PathBuf, Failed> {
    if let Some(path) = on_path(program) {
        return Ok(path);
    }
    let advice = format!("install {program} (Debian and Ubuntu: apt-get install {package})");
    debian::install(program, &[package], &advice)?;
    on_path(program).ok_or_else(|| Failed(format!("{program} is installed, but not on PATH")))
}
