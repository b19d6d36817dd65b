//! Downloads and builds in the user's cache folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::TaskError;

/// Returns the folder of that name in the cache, filled by `fill` if it is missing.
pub(crate) fn folder(name: &str, fill: impl FnOnce(&Path) -> Result<(), TaskError>) -> Result<PathBuf, TaskError> {
    let cache = cache_folder()?;
    let folder = cache.join(name);
    if !folder.exists() {
        // Created under another name and then renamed, so that a folder of this name is always complete.
        let unfinished = cache.join(format!("unfinished-{}", std::process::id()));
        let _ = fs::remove_dir_all(&unfinished); // left by a killed process with the same id
        let filled = fill(&unfinished);
        if filled.is_ok() && !folder.exists() {
            fs::rename(&unfinished, &folder).map_err(|error| TaskError(format!("{}: {error}", folder.display())))?;
        } else {
            let _ = fs::remove_dir_all(&unfinished); // leftovers do no harm
        }
        filled?;
    }
    Ok(folder)
}

/// Returns the folder for downloads that can be repeated.
fn cache_folder() -> Result<PathBuf, TaskError> {
    let configured = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let default = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache =
        configured.or_else(default).ok_or_else(|| TaskError("neither XDG_CACHE_HOME nor HOME is set".to_owned()))?;
    Ok(cache.join("tidegate"))
}
