//! Which features a crate has, read off its manifest, so that a new one is tested without being listed anywhere.

use std::path::Path;

use crate::cargo::Failed;

/// The features of the crate in `folder`, without `default`.
pub(crate) fn of(folder: &Path) -> Result<Vec<String>, Failed> {
    let path = folder.join("Cargo.toml");
    let manifest = std::fs::read_to_string(&path).map_err(|error| Failed(format!("{}: {error}", path.display())))?;
    let section = manifest.lines().skip_while(|line| line.trim() != "[features]").skip(1);
    let lines = section.take_while(|line| !line.starts_with('['));
    let names = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    Ok(names.map(|(name, _)| name.trim().to_owned()).filter(|name| name != "default").collect())
}
