//! workerd, the runtime of Cloudflare's platform, under miniflare.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Where objects are kept. Clones are the same; dropping the last one forgets them.
#[derive(Clone)]
pub struct Storage(Arc<Folder>);

struct Folder(PathBuf);

impl Storage {
    /// One with nothing in it.
    pub fn new() -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tidegate-workerd-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = Folder(std::env::temp_dir().join(name));
        for part in [folder.objects(), folder.leftovers()] {
            std::fs::create_dir_all(&part).map_err(|error| format!("{}: {error}", part.display()))?;
        }
        Ok(Storage(Arc::new(folder)))
    }
}

impl Folder {
    fn objects(&self) -> PathBuf {
        self.0.join("objects")
    }

    /// For what miniflare leaves behind where programs put what they need for a while.
    fn leftovers(&self) -> PathBuf {
        self.0.join("tmp")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about an error here.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A workerd with a Worker in it. Dropping it ends it, and so does the end of the test, however it comes.
pub struct Workerd {
    /// node, whose child it is.
    child: Child,
    url: String,
    storage: Storage,
}

impl Workerd {
    /// Starts the Worker in a folder, with the variables in an object in JSON, and comes back when it serves.
    pub fn start(miniflare: &str, worker: &str, storage: Storage, variables: &str) -> Result<Self, String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workerd.mjs");
        let mut command = Command::new("node");
        command.arg(script).arg(worker).arg(storage.0.objects()).arg(variables);
        command.env("TIDEGATE_MINIFLARE", miniflare).env("TMPDIR", storage.0.leftovers());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("node does not start: {error}"))?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("node has no output".to_owned());
        };
        let said = Arc::new(Mutex::new(String::new()));
        let log = said.clone();
        // Somebody has to read what it says, or it waits for that.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                log.lock().unwrap_or_else(PoisonError::into_inner).push_str(&(line + "\n"));
            }
        });
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        let url = loop {
            line.clear();
            if !matches!(lines.read_line(&mut line), Ok(1..)) {
                let said = said.lock().unwrap_or_else(PoisonError::into_inner);
                return Err(format!("workerd does not start: {said}"));
            }
            if let Some(url) = line.strip_prefix("serving ") {
                break url.trim().to_owned();
            }
        };
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Ok(Workerd { child, url, storage })
    }

    /// Where it serves.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it, and gives what it has stored.
    pub fn end(self) -> Storage {
        self.storage.clone()
    }

    /// Kills it in the middle of whatever it does, as a crash would, and gives what it has stored.
    pub fn kill(self) -> Result<Storage, String> {
        let node = self.child.id();
        let path = format!("/proc/{node}/task/{node}/children");
        let children = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let mut kill = Command::new("kill");
        kill.arg("-9").args(children.split_whitespace());
        match kill.status() {
            Ok(status) if status.success() => Ok(self.end()),
            status => Err(format!("workerd could not be killed: {status:?}")),
        }
    }
}

impl Drop for Workerd {
    fn drop(&mut self) {
        // The end of its input is what it waits for.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
