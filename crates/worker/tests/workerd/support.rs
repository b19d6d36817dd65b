//! The ready Worker, used as its clients use it.

use reqwest::blocking::Client;
use serde_json::{Value, json};
use tidegate::remote::RemoteStore;
use tidegate_servers::{Workerd, WorkerdStorage, required_env};

/// A Worker that runs under workerd. Dropping it ends it.
pub(crate) struct TestWorker(Workerd);

/// The default limits of the ready Worker.
const LIMITS: &str = r#"
[limits.login]
algorithm = "fixed_window"
rate = 5
period = "300d"

[limits.work]
algorithm = "concurrency"
capacity = 2
ttl = "1h"
"#;

impl TestWorker {
    /// Starts the ready Worker for tests, which pass in the time, on an empty storage.
    pub(crate) fn start() -> Self {
        TestWorker::with_variables(json!({}))
    }

    /// Starts the ready Worker with more variables.
    pub(crate) fn with_variables(variables: Value) -> Self {
        TestWorker::start_on(WorkerdStorage::new().unwrap(), variables)
    }

    fn start_on(storage: WorkerdStorage, variables: Value) -> Self {
        let mut all = json!({
            "TIDEGATE_CONFIG": LIMITS, "TIDEGATE_OPEN": "true", "TIDEGATE_TESTING": "true", "TIDEGATE_APART": "refund",
        });
        let changes = variables.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(changes);
        TestWorker::start_script(&required_env("TIDEGATE_WORKER"), storage, &all)
    }

    /// Starts the Worker in a folder with only these variables.
    pub(crate) fn start_script(folder: &str, storage: WorkerdStorage, variables: &Value) -> Self {
        let miniflare = required_env("TIDEGATE_MINIFLARE");
        TestWorker(
            Workerd::start(&miniflare, folder, storage, &variables.to_string()).unwrap_or_else(|why| panic!("{why}")),
        )
    }

    /// Ends workerd and starts it again on the same storage with more variables.
    pub(crate) fn restart(self, variables: Value) -> Self {
        TestWorker::start_on(self.0.stop(), variables)
    }

    /// Kills workerd and starts it again on the same storage.
    pub(crate) fn kill_and_restart(self) -> Self {
        TestWorker::start_on(self.0.kill().unwrap(), json!({}))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0.url())
    }

    /// Returns a store behind the Worker.
    pub(crate) fn store(&self) -> RemoteStore {
        RemoteStore::new(self.0.url()).unwrap()
    }

    /// Posts to the API. Returns the status and the body.
    pub(crate) fn post(&self, path: &str, body: impl Into<String>) -> (u16, Value) {
        let response = Client::new().post(self.url(path)).body(body.into()).send().unwrap();
        let status = response.status().as_u16();
        let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        let body = response.text().unwrap();
        if status >= 400 {
            assert_eq!(kind.as_deref(), Some("application/problem+json"), "{status}: {body}");
        }
        (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{status}: {body}: {error}")))
    }

    /// Takes one of five. Returns the status and the decision.
    pub(crate) fn login(&self, key: &str) -> (u16, Value) {
        self.post("/v1/limit", json!({"limit": "login", "key": key}).to_string())
    }

    /// Sweeps every object at this time. Returns the number of keys that remain.
    pub(crate) fn sweep_at(&self, at_us: u64) -> u64 {
        let (status, remaining) = self.post("/v1/testing/sweep", at_us.to_string());
        assert_eq!(status, 200, "{remaining}");
        remaining.as_u64().unwrap()
    }
}
