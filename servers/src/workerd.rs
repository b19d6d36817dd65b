//! workerd, the runtime of Cloudflare's platform, under miniflare.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::process::{signal, wait_until};
use crate::temp_folder::TempFolder;

/// The maximum time of a start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The folder where workerd keeps objects. Clones share it; dropping the last one removes it.
#[derive(Clone)]
pub struct WorkerdStorage(Arc<TempFolder>);

impl WorkerdStorage {
    /// Creates an empty storage.
    pub fn new() -> Result<Self, String> {
        let storage = WorkerdStorage(Arc::new(TempFolder::new("workerd")?));
        for part in [storage.objects(), storage.leftovers()] {
            std::fs::create_dir_all(&part).map_err(|error| format!("{}: {error}", part.display()))?;
        }
        Ok(storage)
    }

    fn objects(&self) -> PathBuf {
        self.0.path().join("objects")
    }

    /// Returns the temporary folder for the files that miniflare leaves behind.
    fn leftovers(&self) -> PathBuf {
        self.0.path().join("tmp")
    }
}

/// A workerd with a Worker in it. It ends when it is dropped, and when the test ends in any way.
pub struct Workerd {
    /// The process of node, the parent of workerd.
    child: Child,
    url: String,
    storage: WorkerdStorage,
}

impl Workerd {
    /// Starts the Worker in a folder, with variables as a JSON object. Returns when it serves.
    pub fn start(miniflare: &str, worker: &str, storage: WorkerdStorage, variables: &str) -> Result<Self, String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workerd.mjs");
        let mut command = Command::new("node");
        command.arg(script).arg(worker).arg(storage.objects()).arg(variables);
        command.env("TIDEGATE_MINIFLARE", miniflare).env("TMPDIR", storage.leftovers());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("node does not start: {error}"))?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("node has no output".to_owned());
        };
        let errors = Arc::new(Mutex::new(String::new()));
        let log = errors.clone();
        // Its output must be read, or it blocks.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                log.lock().unwrap_or_else(PoisonError::into_inner).push_str(&(line + "\n"));
            }
        });
        let (sender, served) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(url) = line.strip_prefix("serving ") {
                    let _ = sender.send(url.trim().to_owned()); // the start may have timed out
                }
            }
        });
        // From here on, an error drops it and ends the process.
        let mut workerd = Workerd { child, url: String::new(), storage };
        let Ok(url) = served.recv_timeout(START_TIMEOUT) else {
            let errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
            return Err(format!("workerd does not start: {errors}"));
        };
        workerd.url = url;
        Ok(workerd)
    }

    /// Returns the URL that it serves.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops it, and returns its storage.
    pub fn stop(self) -> WorkerdStorage {
        self.storage.clone()
    }

    /// Kills it in the middle of its work, as a crash would, and returns its storage.
    pub fn kill(self) -> Result<WorkerdStorage, String> {
        let node = self.child.id();
        let path = format!("/proc/{node}/task/{node}/children");
        let children = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        match signal(children.map(|child| ("KILL", child))) {
            true => Ok(self.stop()),
            false => Err("workerd could not be killed".to_owned()),
        }
    }
}

impl Drop for Workerd {
    fn drop(&mut self) {
        // It ends when its standard input does.
        drop(self.child.stdin.take());
        if !wait_until(|| !matches!(self.child.try_wait(), Ok(None))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
