//! Requests to the HTTP API, and configs with limits for them.

use serde_json::{Value, json};

use crate::serve::program::Program;

/// Two limits: `api` with 5 a day, and `login` with 2 a day and a deny list.
pub(crate) const LIMITS: &str = r#"
[limits.api]
algorithm = "sliding_log"
rate = 5
period = "1d"

[limits.login]
algorithm = "sliding_log"
rate = 2
period = "1d"
deny = ["mallory"]
on_store_error = "closed"
"#;

/// A config before [`LIMITS`] in tests that count answers of a store. A working store meets this timeout even on a busy
/// machine. The reason of an answer under `open` tells when the store has not answered.
pub(crate) const LONG_STORE_TIMEOUT: &str = "[defaults]\nstore_timeout = \"10s\"\non_store_error = \"open\"\n";

pub(crate) fn url(program: &Program, path: &str) -> String {
    format!("http://{}{path}", program.http.expect("it listens for HTTP"))
}

/// Sends a request of cost 1, and returns the decision.
pub(crate) fn post_limit(program: &Program, limit: &str, key: &str) -> Value {
    let client = reqwest::blocking::Client::new();
    let request = client.post(url(program, "/v1/limit")).json(&json!({ "limit": limit, "key": key }));
    request.send().expect("sent").json().expect("a decision")
}
