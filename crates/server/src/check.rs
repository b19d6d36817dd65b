//! `tidegate check`: what is wrong with configs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate::config::{Config, Syntax, envoy};

use crate::cli::Check;
use crate::failure::Failure;
use crate::say;
use crate::serve::Served;

pub(crate) fn run(check: &Check) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let (mut all_good, mut written) = (true, Ok(()));
    let mut envoys = BTreeMap::<_, BTreeMap<_, _>>::new();
    for file in &check.files {
        // As it would be served, the files that it names among it.
        let loaded = Served::load(Some(file)).map_err(|errors| errors.to_string()).and_then(|served| {
            let built = served.limiter().build();
            built.map(|_| contents(file, &served)).map_err(|error| format!("{}: {error}", file.display()))
        });
        match loaded {
            Ok(contents) => {
                // Whether or not anybody reads on, what is wrong is found.
                written = written.and_then(|()| writeln!(out, "{}: ok, {contents}", file.display()));
                if is_envoys(file) {
                    let (folder, name) = place_of(file);
                    envoys.entry(folder).or_default().entry(name).or_insert(file);
                }
            }
            Err(errors) => {
                all_good = false;
                say(&errors);
            }
        }
    }
    // Each may be right alone, and not beside the others of its folder.
    for files in envoys.values() {
        if let Err(errors) = together(&files.values().copied().collect::<Vec<_>>()) {
            all_good = false;
            say(&errors);
        }
    }
    if all_good { written.map_err(Failure::of_output) } else { Err(Failure::Told) }
}

/// The folder of a file, however that is written, and the name that it has there.
fn place_of(file: &Path) -> (PathBuf, Option<&OsStr>) {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (folder.canonicalize().unwrap_or_else(|_| folder.to_owned()), file.file_name())
}

/// Checks configs of envoyproxy/ratelimit's as it reads them: all that are in a folder.
fn together(files: &[&PathBuf]) -> Result<(), String> {
    let domains = envoy::Domains::from_paths(files).map_err(|errors| errors.to_string())?;
    let served = Served::new(Config::default(), domains, Vec::new(), Vec::new(), false);
    served.limiter().build().map(drop).map_err(|error| format!("all of Envoy's together: {error}"))
}

/// Whether a file is a config of envoyproxy/ratelimit's, which is YAML with a domain.
pub(crate) fn is_envoys(path: &Path) -> bool {
    Syntax::of_path(path) == Syntax::Yaml && fs::read_to_string(path).is_ok_and(|text| envoy::is_config(&text))
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn contents(file: &Path, served: &Served) -> String {
    if is_envoys(file) {
        return count(served.count, "limit") + ", in Envoy's format";
    }
    let limits = count(served.config.limits().len(), "limit");
    match served.files.len() {
        0 => limits,
        files => format!("{limits}, {}", count(files, "envoy config")),
    }
}
