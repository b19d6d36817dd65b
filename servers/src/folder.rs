//! Folders for a while.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::signal::signal;

/// How the names of all begin.
const BEGINNING: &str = "tidegate-";
/// The file in each that is locked for as long as somebody has it.
const LOCK: &str = "lock";

/// A folder of our own, where programs put what they need for a while. Dropping it removes it.
pub(crate) struct Folder {
    path: PathBuf,
    /// The system forgets it with the process, however that ends.
    _lock: File,
}

impl Folder {
    /// An empty one.
    pub(crate) fn new(what: &str) -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (path, created) = loop {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("{BEGINNING}{what}-{}-{next}", std::process::id()));
            match fs::create_dir(&path) {
                // Of a process that had the same number and was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => break (path, created),
            }
        };
        let failed = |error| format!("{}: {error}", path.display());
        created.map_err(failed)?;
        let mut lock = File::create(path.join(LOCK)).map_err(failed)?;
        // Until something is written there, nobody else looks whether it is locked.
        lock.lock().and_then(|()| lock.write_all(b"locked")).map_err(failed)?;
        Ok(Folder { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about an error here.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes what runs have left behind that were killed: their folders, and the servers that still run in them.
pub fn remove_leftovers() {
    let places = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(BEGINNING));
    for folder in places.filter(ours).filter(|folder| is_left(folder)) {
        kill_all_in(&folder);
        // Somebody else may be at it.
        let _ = fs::remove_dir_all(&folder);
    }
}

/// Whether whoever had a folder is gone. One that has no lock is none of these.
fn is_left(folder: &Path) -> bool {
    let lock = folder.join(LOCK);
    fs::read(&lock).is_ok_and(|text| text == b"locked") && File::open(lock).is_ok_and(|lock| lock.try_lock().is_ok())
}

/// Kills the processes that work in a folder.
fn kill_all_in(folder: &Path) {
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = process.file_name().to_string_lossy().parse::<u32>();
        let at = fs::read_link(process.path().join("cwd"));
        if let (Ok(id), Ok(at)) = (id, at)
            && at.starts_with(folder)
        {
            // One that has just ended is none to complain about.
            let _ = signal([("KILL", id)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_folder_is_left_once_nobody_has_its_lock() {
        let folder = Folder::new("leftover").unwrap();
        let path = folder.path().to_owned();
        assert!(!is_left(&path), "somebody has it");
        remove_leftovers();
        assert!(path.is_dir());

        // A process that is killed removes nothing.
        folder._lock.unlock().unwrap();
        let mut server = Command::new("sleep").arg("600").current_dir(&path).spawn().unwrap();
        remove_leftovers();
        assert!(!path.exists());
        assert!(!server.wait().unwrap().success(), "it was killed");
    }

    #[test]
    fn a_folder_without_a_lock_is_none_of_ours() {
        let folder = Folder::new("strange").unwrap();
        for text in ["", "lock"] {
            fs::write(folder.path().join(LOCK), text).unwrap();
            assert!(!is_left(folder.path()));
        }
        fs::remove_file(folder.path().join(LOCK)).unwrap();
        assert!(!is_left(folder.path()));
    }
}
