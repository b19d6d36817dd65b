//! Programs from crates.io.

use std::path::PathBuf;

use super::cache;
use crate::cargo::{TaskError, cargo, step};

/// Installs the programs of a package in that version, and returns their folder. They are built once, which takes
/// minutes, and cached. The profile `dev` halves the build time, for a program whose speed does not matter.
pub(crate) fn install(package: &str, version: &str, profile: &str) -> Result<PathBuf, TaskError> {
    let folder = cache::folder(&format!("{package}-{version}-{profile}"), |folder| {
        let version = format!("={version}");
        let run_install = |how| {
            let mut install =
                cargo(["install", "--quiet", package, "--version", &version, "--profile", profile, "--root"]);
            install.arg(folder).args(how).env("CARGO_PROFILE_DEV_DEBUG", "false");
            step(&format!("{package}: cargo install"), &mut install)
        };
        // The versions in its lock file may be yanked by now, or missing on a mirror.
        run_install(Some("--locked")).or_else(|TaskError(message)| {
            println!("{message}\n{package}: again, with other versions of what it depends on than it names");
            run_install(None)
        })
    })?;
    Ok(folder.join("bin"))
}
