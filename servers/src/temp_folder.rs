//! Temporary folders, removed on drop or by a later run.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::signal;

/// The prefix of every folder's name.
const PREFIX: &str = "tidegate-";
/// The file in each folder that is locked while the folder is in use.
const LOCK: &str = "lock";

/// A temporary folder of this process. Dropping it removes it.
pub(crate) struct TempFolder {
    path: PathBuf,
    /// The system releases the lock with the process, however it ends.
    _lock: File,
}

impl TempFolder {
    /// Creates an empty folder.
    pub(crate) fn new(what: &str) -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (path, created) = loop {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("{PREFIX}{what}-{}-{next}", std::process::id()));
            match fs::create_dir(&path) {
                // A process with the same id left it and was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => break (path, created),
            }
        };
        let failed = |error| format!("{}: {error}", path.display());
        created.map_err(failed)?;
        let mut lock = File::create(path.join(LOCK)).map_err(failed)?;
        // Until the lock file has content, other processes do not check its lock.
        lock.lock().and_then(|()| lock.write_all(b"locked")).map_err(failed)?;
        Ok(TempFolder { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // An error cannot be handled here.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the leftovers of killed runs: their folders, and the servers that still run in them.
pub fn remove_leftovers() {
    let places = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    for folder in places.filter(ours).filter(|folder| is_abandoned(folder)) {
        kill_processes_in(&folder);
        // Another process may remove it at the same time.
        let _ = fs::remove_dir_all(&folder);
    }
}

/// Returns whether the process that created a folder is gone. A folder without a lock belongs to another program.
fn is_abandoned(folder: &Path) -> bool {
    let lock = folder.join(LOCK);
    fs::read(&lock).is_ok_and(|text| text == b"locked") && File::open(lock).is_ok_and(|lock| lock.try_lock().is_ok())
}

/// Kills the processes whose working directory is a folder.
fn kill_processes_in(folder: &Path) {
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = process.file_name().to_string_lossy().parse::<u32>();
        let at = fs::read_link(process.path().join("cwd"));
        if let (Ok(id), Ok(at)) = (id, at)
            && at.starts_with(folder)
        {
            // The process may have just ended.
            let _ = signal([("KILL", id)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn folder_without_a_held_lock_is_removed_with_its_processes() {
        let folder = TempFolder::new("leftover").unwrap();
        let path = folder.path().to_owned();
        assert!(!is_abandoned(&path), "its lock is held");
        remove_leftovers();
        assert!(path.is_dir());

        // A killed process removes nothing.
        folder._lock.unlock().unwrap();
        let mut server = Command::new("sleep").arg("600").current_dir(&path).spawn().unwrap();
        remove_leftovers();
        assert!(!path.exists());
        assert!(!server.wait().unwrap().success(), "it was killed");
    }

    #[test]
    fn folder_without_a_valid_lock_is_kept() {
        let folder = TempFolder::new("strange").unwrap();
        for text in ["", "lock"] {
            fs::write(folder.path().join(LOCK), text).unwrap();
            assert!(!is_abandoned(folder.path()));
        }
        fs::remove_file(folder.path().join(LOCK)).unwrap();
        assert!(!is_abandoned(folder.path()));
    }
}
