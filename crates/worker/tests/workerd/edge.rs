//! A workerd with a Worker in it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use reqwest::blocking::Client;
use serde_json::{Value, json};
use tidegate::remote::RemoteStore;
use tidegate_servers::variable;

/// Where objects are kept. Dropping it forgets them.
pub(crate) struct Storage(PathBuf);

impl Storage {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tidegate-workerd-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Storage(folder)
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // Nothing can be done about an error here.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A workerd that runs, with a Worker. Dropping it ends it, and so does the end of the test, however it comes.
pub(crate) struct Edge {
    child: Child,
    url: String,
    storage: Arc<Storage>,
}

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
        Edge::on(Arc::new(Storage::new()), json!({}))
    }

    /// The same on a storage, with other variables.
    pub(crate) fn on(storage: Arc<Storage>, variables: Value) -> Self {
        let mut told = json!({
            "TIDEGATE_CONFIG": LIMITS, "TIDEGATE_OPEN": "true", "TIDEGATE_TESTING": "true", "TIDEGATE_APART": "refund",
        });
        let changes = variables.as_object().unwrap().clone();
        told.as_object_mut().unwrap().extend(changes);
        Edge::with(&variable("TIDEGATE_WORKER"), storage, &told)
    }

    /// The Worker in a folder.
    pub(crate) fn with(worker: &str, storage: Arc<Storage>, variables: &Value) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workerd/start.mjs");
        let mut command = Command::new("node");
        command.arg(script).arg(worker).arg(&storage.0).arg(variables.to_string());
        command.env("TIDEGATE_MINIFLARE", variable("TIDEGATE_MINIFLARE"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("node starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let said = Arc::new(Mutex::new(String::new()));
        let (mut stderr, log) = (BufReader::new(child.stderr.take().unwrap()), said.clone());
        // Somebody has to read what it says, or it waits for that.
        std::thread::spawn(move || {
            let mut line = String::new();
            while matches!(stderr.read_line(&mut line), Ok(1..)) {
                log.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
        });
        let mut line = String::new();
        let url = loop {
            line.clear();
            assert!(matches!(lines.read_line(&mut line), Ok(1..)), "workerd does not start: {}", said.lock().unwrap());
            if let Some(url) = line.strip_prefix("serving ") {
                break url.trim().to_owned();
            }
        };
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Edge { child, url, storage }
    }

    /// Ends workerd, and starts it again on the same storage, with other variables.
    pub(crate) fn restarted(self, variables: Value) -> Self {
        let storage = self.storage.clone();
        drop(self);
        Edge::on(storage, variables)
    }

    /// Kills workerd in the middle of whatever it does, as a crash would, and starts another on the same storage.
    pub(crate) fn killed(self) -> Self {
        let node = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{node}/task/{node}/children")).unwrap();
        let workerd: Vec<_> = children.split_whitespace().collect();
        assert!(!workerd.is_empty(), "workerd is a child of node");
        assert!(Command::new("kill").arg("-9").args(workerd).status().unwrap().success());
        self.restarted(json!({}))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The store that asks it.
    pub(crate) fn store(&self) -> RemoteStore {
        RemoteStore::new(&self.url).unwrap()
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

impl Drop for Edge {
    fn drop(&mut self) {
        // The end of its input is what it waits for.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
