//! `tidegate check`: reports everything that is wrong with configs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate::config::{Config, Syntax, envoy};

use crate::app::config::{ActiveConfig, read_file};
use crate::cli::Check;
use crate::{Failure, print_message};

pub(crate) fn run(check: &Check) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let (mut is_valid, mut written) = (true, Ok(()));
    let mut envoys = BTreeMap::<_, BTreeMap<_, _>>::new();
    for file in &check.files {
        // As it would be served, with the files that it names.
        let loaded = ActiveConfig::load(Some(file)).map_err(|errors| errors.to_string()).and_then(|config| {
            let built = config.limiter().build();
            built.map(|_| contents(file, &config)).map_err(|error| format!("{}: {error}", file.display()))
        });
        match loaded {
            Ok(contents) => {
                // A closed output must not hide the errors of further files.
                written = written.and_then(|()| writeln!(out, "{}: ok, {contents}", file.display()));
                if is_envoy_config(file) {
                    let (folder, name) = folder_and_name(file);
                    envoys.entry(folder).or_default().entry(name).or_insert(file);
                }
            }
            Err(errors) => {
                is_valid = false;
                print_message(&errors);
            }
        }
    }
    // Files that are right alone may conflict with others of their folder.
    for files in envoys.values() {
        if let Err(errors) = check_folder(&files.values().copied().collect::<Vec<_>>()) {
            is_valid = false;
            print_message(&errors);
        }
    }
    if is_valid { written.map_err(Failure::from_output) } else { Err(Failure::Reported) }
}

/// Returns the canonical folder of a file, and its name there.
fn folder_and_name(file: &Path) -> (PathBuf, Option<&OsStr>) {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (folder.canonicalize().unwrap_or_else(|_| folder.to_owned()), file.file_name())
}

/// Checks configs of envoyproxy/ratelimit as it reads them: all files of a folder together.
fn check_folder(files: &[&PathBuf]) -> Result<(), String> {
    let domains = envoy::Domains::from_paths(files).map_err(|errors| errors.to_string())?;
    let config = ActiveConfig::new(Config::default(), domains, Vec::new(), Vec::new(), false);
    config.limiter().build().map(drop).map_err(|error| format!("all of Envoy's together: {error}"))
}

/// Whether a file is a config of envoyproxy/ratelimit, which is YAML with a domain.
pub(crate) fn is_envoy_config(path: &Path) -> bool {
    Syntax::of_path(path) == Syntax::Yaml
        && read_file(path).is_some_and(|bytes| str::from_utf8(&bytes).is_ok_and(envoy::is_config))
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn contents(file: &Path, config: &ActiveConfig) -> String {
    if is_envoy_config(file) {
        return count(config.limit_count, "limit") + ", in Envoy's format";
    }
    let limits = count(config.config.limits().len(), "limit");
    match config.files.len() {
        0 => limits,
        files => format!("{limits}, {}", count(files, "envoy config")),
    }
}
