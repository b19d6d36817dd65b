//! The ready Worker, asked as its clients ask it.

use reqwest::blocking::Client;
use serde_json::{Value, json};
use tidegate::remote::RemoteStore;
use tidegate_servers::{Storage, Workerd, variable};

/// A Worker that runs. Dropping it ends it.
pub(crate) struct Edge(Workerd);

/// What the ready Worker is told, unless a test says otherwise.
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

impl Edge {
    /// The ready Worker, for tests: with the time passed in, and nothing stored yet.
    pub(crate) fn start() -> Self {
        Edge::told(json!({}))
    }

    /// The same with other variables.
    pub(crate) fn told(variables: Value) -> Self {
        Edge::on(Storage::new().unwrap(), variables)
    }

    fn on(storage: Storage, variables: Value) -> Self {
        let mut told = json!({
            "TIDEGATE_CONFIG": LIMITS, "TIDEGATE_OPEN": "true", "TIDEGATE_TESTING": "true", "TIDEGATE_APART": "refund",
        });
        let changes = variables.as_object().unwrap().clone();
        told.as_object_mut().unwrap().extend(changes);
        Edge::with(&variable("TIDEGATE_WORKER"), storage, &told)
    }

    /// The Worker in a folder, with these variables alone.
    pub(crate) fn with(worker: &str, storage: Storage, variables: &Value) -> Self {
        let miniflare = variable("TIDEGATE_MINIFLARE");
        Edge(Workerd::start(&miniflare, worker, storage, &variables.to_string()).unwrap_or_else(|why| panic!("{why}")))
    }

    /// Ends workerd, and starts it again on the same storage, with other variables.
    pub(crate) fn restarted(self, variables: Value) -> Self {
        Edge::on(self.0.end(), variables)
    }

    /// Kills workerd, and starts another on the same storage.
    pub(crate) fn killed(self) -> Self {
        Edge::on(self.0.kill().unwrap(), json!({}))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0.url())
    }

    /// The store that asks it.
    pub(crate) fn store(&self) -> RemoteStore {
        RemoteStore::new(self.0.url()).unwrap()
    }

    /// Asks the API: the status, and what it answers.
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

    /// Takes one of five, and gives the decision.
    pub(crate) fn login(&self, key: &str) -> (u16, Value) {
        self.post("/v1/limit", json!({"limit": "login", "key": key}).to_string())
    }

    /// Sweeps every object at a time, and gives how many keys are left.
    pub(crate) fn swept(&self, at_us: u64) -> u64 {
        let (status, left) = self.post("/v1/testing/sweep", at_us.to_string());
        assert_eq!(status, 200, "{left}");
        left.as_u64().unwrap()
    }
}
