//! A package from npm that the tests run. Kept in the user's cache folder.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::get::on_path;
use super::{cache, debian};
use crate::cargo::{Failed, step};

const IOREDIS: &str = "6.0.0";

/// The folder to be on `NODE_PATH`.
pub(crate) fn ioredis() -> Result<PathBuf, Failed> {
    if ["node", "npm"].into_iter().any(|name| on_path(name).is_none()) {
        debian::install("Node.js", &["nodejs", "npm"], "install Node.js 20 or newer, with npm, which gets ioredis")?;
    }
    let folder = cache::folder(&format!("ioredis-{IOREDIS}"), |folder| {
        fs::create_dir_all(folder).map_err(|error| Failed(format!("{}: {error}", folder.display())))?;
        let package = format!("ioredis@{IOREDIS}");
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", &package, "--prefix"])
            .arg(folder);
        step(&format!("ioredis: npm install {package}"), &mut npm)
    })?;
    Ok(folder.join("node_modules"))
}
