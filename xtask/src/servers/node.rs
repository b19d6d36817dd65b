//! Packages from npm that the tests run. Kept in the user's cache folder.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::get::on_path;
use super::{cache, debian};
use crate::cargo::{Failed, step};

/// Packages that belong together, each with its version; the first is what they are called by.
struct Packages(&'static [(&'static str, &'static str)]);

const IOREDIS: Packages = Packages(&[("ioredis", "6.0.0")]);

/// What ws-kit has of a client, and a socket to use it on. What it needs is here too, so that it stays the same.
const WS_KIT: Packages = Packages(&[
    ("@ws-kit/zod", "0.10.2"),
    ("@ws-kit/core", "0.10.1"),
    ("@ws-kit/plugins", "0.10.1"),
    ("@ws-kit/pubsub", "0.10.2"),
    ("zod", "4.6.7"),
    ("ws", "8.22.2"),
]);

/// workerd, which runs Workers, and what starts it.
const MINIFLARE: Packages = Packages(&[("miniflare", "4.20260730.0")]);

/// The folder to be on `NODE_PATH`.
pub(crate) fn ioredis() -> Result<PathBuf, Failed> {
    IOREDIS.folder().map(|folder| folder.join("node_modules"))
}

/// The folder of the packages.
pub(crate) fn ws_kit() -> Result<PathBuf, Failed> {
    WS_KIT.folder().map(|folder| folder.join("node_modules"))
}

/// The folder that it is installed in.
pub(crate) fn miniflare() -> Result<PathBuf, Failed> {
    MINIFLARE.folder()
}

impl Packages {
    fn folder(&self) -> Result<PathBuf, Failed> {
        if ["node", "npm"].into_iter().any(|name| on_path(name).is_none()) {
            let advice = "install Node.js 20 or newer, with npm, which gets ioredis, ws-kit and miniflare";
            debian::install("Node.js", &["nodejs", "npm"], advice)?;
        }
        let (name, version) = self.0[0];
        let name = name.trim_start_matches('@').replace('/', "-");
        cache::folder(&format!("{name}-{version}"), |folder| {
            fs::create_dir_all(folder).map_err(|error| Failed(format!("{}: {error}", folder.display())))?;
            let packages: Vec<String> =
                self.0.iter().map(|(package, version)| format!("{package}@{version}")).collect();
            let mut npm = Command::new("npm");
            npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]);
            npm.args(&packages).arg("--prefix").arg(folder);
            step(&format!("{name}: npm install {}", packages.join(" ")), &mut npm)
        })
    }
}
