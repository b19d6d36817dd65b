//! What tests ask for over HTTP.

use serde_json::{Value, json};

use crate::program::Program;

/// Two limits: `api` with 5 a day, and `login` with 2 a day and somebody on its deny list.
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

/// Before [`LIMITS`], where a test counts what a store answers: one that works answers within that even on a busy machine.
pub(crate) const PATIENT: &str = "[defaults]\nstore_timeout = \"10s\"\n";

pub(crate) fn url(program: &Program, path: &str) -> String {
    format!("http://{}{path}", program.http.expect("it listens for HTTP"))
}

/// Takes one, and gives the decision.
pub(crate) fn take(program: &Program, limit: &str, key: &str) -> Value {
    let client = reqwest::blocking::Client::new();
    let request = client.post(url(program, "/v1/limit")).json(&json!({ "limit": limit, "key": key }));
    request.send().expect("sent").json().expect("a decision")
}
