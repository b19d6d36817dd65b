//! The files of the repository.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::cargo::TaskError;

/// Returns the files of the repository whose names end in one of these extensions, sorted. Builds and hidden folders are left out.
pub(crate) fn files(extensions: &[&str]) -> Result<Vec<PathBuf>, TaskError> {
    let is_wanted = |path: &PathBuf| path.extension().is_some_and(|own| extensions.iter().any(|wanted| own == *wanted));
    Ok(files_below(Path::new("."))?.into_iter().filter(is_wanted).collect())
}

/// Returns the files below a folder, sorted. Builds and hidden folders are left out.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, TaskError> {
    let failed = |error| TaskError(format!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, name) = (entry.path(), entry.file_name());
        // A link may lead anywhere.
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            files.extend(files_below(&path)?);
        } else if kind.is_file() {
            files.push(path.strip_prefix(".").map(Path::to_owned).unwrap_or(path));
        }
    }
    files.sort();
    Ok(files)
}

/// Reads a file as text.
pub(crate) fn read(path: &Path) -> Result<String, TaskError> {
    fs::read_to_string(path).map_err(|error| TaskError(format!("{}: {error}", path.display())))
}

/// The path of the repository that a link of `page` names.
pub(crate) fn resolve(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir if path.file_name().is_some_and(|name| name != "..") => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_from_the_page() {
        assert_eq!(resolve(Path::new("a/b/c.md"), "../d.md"), Path::new("a/d.md"));
        assert_eq!(resolve(Path::new("README.md"), "a/./c.md"), Path::new("a/c.md"));
        assert_eq!(resolve(Path::new("README.md"), "../c.md"), Path::new("../c.md"));
    }
}
