//! `tidegate check`: what is wrong with configs.

use std::io::{self, Write};

use tidegate::config::Config;

use crate::cli::Check;
use crate::failure::Failure;
use crate::say;

pub(crate) fn run(check: &Check) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let mut all_good = true;
    for file in &check.files {
        match Config::from_path(file) {
            Ok(config) => {
                writeln!(out, "{}: ok, {}", file.display(), contents(&config)).map_err(Failure::of_output)?;
            }
            Err(errors) => {
                all_good = false;
                say(&errors.to_string());
            }
        }
    }
    if all_good { Ok(()) } else { Err(Failure::Told) }
}

fn contents(config: &Config) -> String {
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let limits = count(config.limits().len(), "limit");
    match config.envoy().configs.len() {
        0 => limits,
        files => format!("{limits}, {}", count(files, "envoy config")),
    }
}
