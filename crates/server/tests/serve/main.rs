//! The server as its clients meet it: the real binary, on real sockets.

mod dashboard;
mod denials;
mod envoy;
mod faults;
mod grpc;
mod http;
mod metrics;
mod program;
mod resp;
mod start;

use std::fs;
use std::path::PathBuf;

use program::Program;
use serde_json::{Value, json};

/// A file of this test run.
fn file(name: &str, text: impl AsRef<[u8]>) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Put in its place at once, whole: a server may be looking.
    let made = path.with_extension("made");
    fs::write(&made, text).expect("written");
    fs::rename(&made, &path).expect("renamed");
    path.to_str().expect("text").to_owned()
}

/// Two limits: `api` with 5 a day, and `login` with 2 a day and somebody on its deny list.
const LIMITS: &str = r#"
[limits.api]
algorithm = "fixed_window"
rate = 5
period = "1d"

[limits.login]
algorithm = "fixed_window"
rate = 2
period = "1d"
deny = ["mallory"]
on_store_error = "closed"
"#;

fn url(program: &Program, path: &str) -> String {
    format!("http://{}{path}", program.http.expect("a port"))
}

/// Takes one, and says whether that was allowed.
fn take(program: &Program, limit: &str, key: &str) -> Value {
    let client = reqwest::blocking::Client::new();
    let request = client.post(url(program, "/v1/limit")).json(&json!({ "limit": limit, "key": key }));
    request.send().expect("sent").json().expect("a decision")
}

fn get(program: &Program, path: &str) -> String {
    reqwest::blocking::get(url(program, path)).expect("asked").text().expect("a text")
}
