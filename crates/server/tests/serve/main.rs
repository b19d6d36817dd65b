//! The server as its clients meet it: the real binary, on real sockets.

mod asking;
mod authority;
mod dashboard;
mod denials;
mod envoy;
mod faults;
mod grpc;
mod http;
mod metrics;
mod parity;
mod program;
mod remote;
mod resp;
mod start;

use std::fs;
use std::path::PathBuf;

use asking::{LIMITS, PATIENT, take, url};
use program::Program;

/// A file of this test run.
fn file(name: &str, text: impl AsRef<[u8]>) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Put in its place at once, whole: a server may be looking.
    let made = path.with_extension("made");
    fs::write(&made, text).expect("written");
    fs::rename(&made, &path).expect("renamed");
    path.to_str().expect("text").to_owned()
}

fn get(program: &Program, path: &str) -> String {
    reqwest::blocking::get(url(program, path)).expect("asked").text().expect("a text")
}
