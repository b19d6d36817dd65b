//! Which programs a folder has, read off its files, so that a new one is run without being listed anywhere.

use std::path::Path;

use crate::cargo::Failed;

/// The names of the programs whose sources lie in `folder`, sorted; there is at least one.
pub(crate) fn of(folder: &str) -> Result<Vec<String>, Failed> {
    let failed = |why: &dyn std::fmt::Display| Failed(format!("{folder}: {why}"));
    let files = Path::new(folder).read_dir().map_err(|error| failed(&error))?;
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    if names.is_empty() { Err(failed(&"there is no program")) } else { Ok(names) }
}
