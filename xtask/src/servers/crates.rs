//! Programs from crates.io.

use std::path::PathBuf;

use super::cache;
use crate::cargo::{Failed, cargo, step};

/// Installs the programs of a package in that version, and returns their folder. They are built once, which takes minutes,
/// and cached. `prepare` installs what the build needs beside cargo.
pub(crate) fn install(
    package: &str,
    version: &str,
    prepare: impl FnOnce() -> Result<(), Failed>,
) -> Result<PathBuf, Failed> {
    let folder = cache::folder(&format!("{package}-{version}"), |folder| {
        prepare()?;
        let version = format!("={version}");
        let run_install = |how| {
            let mut install = cargo(["install", "--quiet", package, "--version", &version, "--root"]);
            install.arg(folder).args(how);
            step(&format!("{package}: cargo install"), &mut install)
        };
        // What its lock file names may be gone by now, or not be on a mirror.
        run_install(Some("--locked")).or_else(|Failed(message)| {
            println!("{message}\n{package}: again, with other versions of what it depends on than it names");
            run_install(None)
        })
    })?;
    Ok(folder.join("bin"))
}
