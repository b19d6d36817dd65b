//! What a package is built with.

use std::collections::BTreeSet;

use crate::cargo::{Failed, cargo, said};

/// The names of all packages that `package` is built with under these features alone.
pub(crate) fn of(package: &str, features: &str) -> Result<BTreeSet<String>, Failed> {
    let arguments = ["tree", "--package", package, "--no-default-features", "--features", features];
    let tree = said(cargo(arguments).args(["--edges", "normal", "--prefix", "none"]))?;
    Ok(tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}
