//! `tidegate serve --otlp`, sending to a receiver that speaks OTLP.

mod collector;
mod metrics;
mod receiver;
mod spans;

use std::path::PathBuf;
use std::{fs, process};

use crate::serve::api_client::{LIMITS, LONG_STORE_TIMEOUT, post_limit, url};
use crate::serve::program::Program;

/// Returns the path of a file of this test run.
fn temp_path(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("otlp-{}-{name}", process::id()));
    path.to_str().expect("text").to_owned()
}

/// Writes a config of this test run, and returns its path.
fn write_config(name: &str) -> String {
    let path = temp_path(name);
    fs::write(&path, format!("{LONG_STORE_TIMEOUT}{LIMITS}")).expect("written");
    path
}
