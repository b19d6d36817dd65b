//! `tidegate serve --otlp`, sending to a receiver that speaks OTLP.

#[path = "../serve/asking.rs"]
mod asking;
mod collector;
mod metrics;
#[path = "../serve/program.rs"]
mod program;
mod receiver;
mod spans;

use std::path::PathBuf;
use std::{fs, process};

use asking::{LIMITS, PATIENT, take, url};
use program::Program;

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
