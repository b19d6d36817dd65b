//! The HTTP API.

mod access;
mod api;
mod apply;
mod bad_input;
mod demo;
mod forward_auth;
mod leases;
mod reload;
mod shutdown;
mod snapshot;
mod store_errors;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use reqwest::{Client, StatusCode};
use serde_json::Value;

pub(crate) use crate::serve::api_client::url;
use crate::serve::program::Program;

/// Limits whose windows do not end while a test runs.
pub(crate) const LIMITS: &str = r#"
[limits.two]
algorithm = "sliding_log"
rate = 2
period = "1d"

[limits.five]
algorithm = "token_bucket"
rate = 5
period = "1d"

[limits.closed_to_some]
algorithm = "token_bucket"
rate = 5
period = "1d"
deny = ["mallory", "203.0.113.0/24"]
"#;

/// A temporary file, such as a config, removed when it is dropped.
pub(crate) struct TempFile(pub(crate) PathBuf);

impl TempFile {
    pub(crate) fn new(text: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-serve-{}-{}.toml", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let file = TempFile(std::env::temp_dir().join(name));
        file.write(text);
        file
    }

    pub(crate) fn write(&self, text: &str) {
        std::fs::write(&self.0, text).expect("a place for files");
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts a server with [`LIMITS`].
pub(crate) fn start_server(arguments: &[&str]) -> (Program, TempFile) {
    let config = TempFile::new(LIMITS);
    let mut all = vec!["--config", config.path()];
    all.extend(arguments);
    (Program::start(&all), config)
}

/// Sends a request, and returns status and body.
pub(crate) async fn post(program: &Program, path: &str, body: &str) -> (StatusCode, Value) {
    let answer = Client::new().post(url(program, path)).body(body.to_owned()).send().await.expect("an answer");
    let status = answer.status();
    (status, serde_json::from_str(&answer.text().await.expect("text")).expect("JSON"))
}
