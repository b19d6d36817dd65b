//! `tidegate serve --otlp`, sending to a receiver that speaks OTLP.

mod collector;
mod metrics;
mod receiver;
mod spans;

use std::path::PathBuf;
use std::{fs, process};

use crate::serve::api_client::{LIMITS, PATIENT, take, url};
use crate::serve::program::Program;

/// A place for a file of this test run.
fn place(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("otlp-{}-{name}", process::id()));
    path.to_str().expect("text").to_owned()
}

/// A config of this test run.
fn config(name: &str) -> String {
    let path = place(name);
    fs::write(&path, format!("{PATIENT}{LIMITS}")).expect("written");
    path
}
