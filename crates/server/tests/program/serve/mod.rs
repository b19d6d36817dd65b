//! `tidegate serve` on real sockets, with real clients.

#[cfg(feature = "_real-servers")]
mod alerts;
pub(crate) mod api_client;
mod authority;
#[cfg(feature = "_real-servers")]
mod cross_site;
#[cfg(feature = "_real-servers")]
mod dashboard;
mod denials;
mod envoy;
mod faults;
mod grpc;
mod http;
mod metrics;
#[cfg(feature = "_real-servers")]
mod parity;
pub(crate) mod program;
mod remote;
mod resp;
mod start;

use std::fs;
use std::path::PathBuf;

use api_client::{LIMITS, LONG_STORE_TIMEOUT, post_limit, url};
use program::Program;

/// Writes a file of this test run.
fn write_file(name: &str, text: impl AsRef<[u8]>) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Renamed into place, because a server may be reading the file.
    let made = path.with_extension("made");
    fs::write(&made, text).expect("written");
    fs::rename(&made, &path).expect("renamed");
    path.to_str().expect("text").to_owned()
}

fn get(program: &Program, path: &str) -> String {
    reqwest::blocking::get(url(program, path)).expect("asked").text().expect("a text")
}
