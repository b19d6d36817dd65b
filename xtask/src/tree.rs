//! What a package is built with.

use std::collections::BTreeSet;

use crate::cargo::{Failed, cargo};

/// The names of all packages that `package` is built with under these features alone.
pub(crate) fn of(package: &str, features: &str) -> Result<BTreeSet<String>, Failed> {
    let arguments = ["tree", "--package", package, "--no-default-features", "--features", features];
    let tree = cargo(arguments).args(["--edges", "normal", "--prefix", "none"]).output();
    let tree = tree.map_err(|error| Failed(format!("cargo tree: {error}")))?;
    if !tree.status.success() {
        return Err(Failed(format!("cargo tree ({}): {}", tree.status, String::from_utf8_lossy(&tree.stderr))));
    }
    let tree = String::from_utf8_lossy(&tree.stdout);
    Ok(tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}
