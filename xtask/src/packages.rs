//! The features, dependencies and programs of cargo packages.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cargo::{TaskError, cargo, output_of};

/// Returns the features of the crate in `folder`, without `default` and those of our own tests. They are read from its
/// manifest, so a new one is tested without an entry in another list.
pub(crate) fn feature_names(folder: &Path) -> Result<Vec<String>, TaskError> {
    let path = folder.join("Cargo.toml");
    let manifest = std::fs::read_to_string(&path).map_err(|error| TaskError(format!("{}: {error}", path.display())))?;
    let section = manifest.lines().skip_while(|line| line.trim() != "[features]").skip(1);
    let lines = section.take_while(|line| !line.starts_with('['));
    let names = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    Ok(names
        .map(|(name, _)| name.trim().to_owned())
        .filter(|name| name != "default" && !name.starts_with('_'))
        .collect())
}

/// Returns the names of all packages that `package` depends on with these features.
pub(crate) fn dependency_names(package: &str, features: &str) -> Result<BTreeSet<String>, TaskError> {
    let arguments = ["tree", "--package", package, "--no-default-features", "--features", features];
    let tree = output_of(cargo(arguments).args(["--edges", "normal", "--prefix", "none"]))?;
    Ok(tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

/// Returns the names of the programs whose sources are in `folder`, sorted, at least one. They are read from its files,
/// so a new program is run without an entry in another list.
pub(crate) fn program_names(folder: &str) -> Result<Vec<String>, TaskError> {
    let failed = |why: &dyn std::fmt::Display| TaskError(format!("{folder}: {why}"));
    let files = Path::new(folder).read_dir().map_err(|error| failed(&error))?;
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    if names.is_empty() { Err(failed(&"there is no program")) } else { Ok(names) }
}
