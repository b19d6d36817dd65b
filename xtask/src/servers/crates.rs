//! Programs from crates.io.

use std::path::PathBuf;

use super::cache;
use crate::cargo::{Failed, cargo, step};

/// The folder with the programs of a package in that version: built once, which takes minutes, and kept. `prepare` gets what the build
/// needs beside cargo.
pub(crate) fn built(
    package: &str,
    version: &str,
    prepare: impl FnOnce() -> Result<(), Failed>,
) -> Result<PathBuf, Failed> {
    let folder = cache::folder(&format!("{package}-{version}"), |folder| {
        prepare()?;
        let version = format!("={version}");
        let install = |how| {
            let mut install = cargo(["install", "--quiet", package, "--version", &version, "--root"]);
            install.arg(folder).args(how);
            step(&format!("{package}: cargo install"), &mut install)
        };
        // What its lock file names may be gone by now, or not be on a mirror.
        install(Some("--locked")).or_else(|Failed(why)| {
            println!("{why}\n{package}: again, with other versions of what it depends on than it names");
            install(None)
        })
    })?;
    Ok(folder.join("bin"))
}
