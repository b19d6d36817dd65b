//! `tidegate serve --otlp`, sending to a receiver that speaks OTLP.

mod collector;
mod metrics;
#[path = "../serve/program.rs"]
mod program;
mod receiver;
mod spans;

use std::path::PathBuf;
use std::{fs, process};

use program::Program;
use serde_json::{Value, json};

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

/// A place for a file of this test run.
fn place(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("otlp-{}-{name}", process::id()));
    path.to_str().expect("text").to_owned()
}

/// A config of this test run.
fn config(name: &str) -> String {
    let path = place(name);
    fs::write(&path, LIMITS).expect("written");
    path
}

fn url(program: &Program, path: &str) -> String {
    format!("http://{}{path}", program.http.expect("a port"))
}

/// Takes one.
fn take(program: &Program, limit: &str, key: &str) -> Value {
    let client = reqwest::blocking::Client::new();
    let request = client.post(url(program, "/v1/limit")).json(&json!({ "limit": limit, "key": key }));
    request.send().expect("sent").json().expect("a decision")
}
