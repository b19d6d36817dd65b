//! Snapshots: the memory store in a file, from one run to the next.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tidegate::{MemoryStore, MemoryStoreBuilder};
use tracing::info;

use crate::Failure;

/// Loads the store from the file, or creates one if there is no file. An unreadable file is an error: to ignore it would
/// give every key its quota back.
pub(super) fn load(path: &Path, builder: MemoryStoreBuilder) -> Result<MemoryStore, Failure> {
    let place = path.display();
    // An unwritable place is found now rather than at the end, when everything would be lost.
    create_temporary(path).and_then(|(temporary, _)| fs::remove_file(temporary)).map_err(|error| {
        Failure::Start(format!("{place}: the snapshot could not be written here when it ends: {error}"))
    })?;
    remove_leftovers(path);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            info!(file = %place, "there is no snapshot yet: every key is new");
            return Ok(builder.build());
        }
        Err(error) => return Err(Failure::Start(format!("{place}: the snapshot cannot be opened: {error}"))),
    };
    match builder.load(BufReader::new(file)) {
        Ok(store) => {
            info!(file = %place, keys = store.stats().keys, "the snapshot is loaded");
            Ok(store)
        }
        Err(error) => Err(Failure::Start(format!(
            "{place}: {error}\nMove the file away to start without it: every key is as good as new then."
        ))),
    }
}

/// Replaces the file by a snapshot of the store, atomically.
pub(super) fn save(path: &Path, store: &MemoryStore) -> io::Result<u64> {
    let (temporary, file) = create_temporary(path)?;
    let written = write(&file, store).and_then(|keys| fs::rename(&temporary, path).map(|()| keys));
    if written.is_err() {
        // A partial file is useless.
        let _ = fs::remove_file(&temporary);
    }
    let keys = written?;
    // The name of the file is in the folder, which must reach the disk, too. Some file systems cannot sync folders.
    let _ = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
    Ok(keys)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write(file: &File, store: &MemoryStore) -> io::Result<u64> {
    let mut out = BufWriter::new(file);
    let keys = store.save(&mut out)?;
    out.flush()?;
    file.sync_all()?;
    Ok(keys)
}

/// Separates the name of a snapshot from the number of a temporary file temporary it.
const TEMPORARY: &str = ".new-";

/// Creates a temporary file temporary the snapshot, locked while it is written. Its number is random: the previous process may
/// still be writing its own, and in a container both have the process id 1.
fn create_temporary(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut options = File::options();
    options.write(true).create_new(true);
    // A reader of the file could choose keys that collide.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("{TEMPORARY}{:016x}", RandomState::new().hash_one(())));
        let temporary = PathBuf::from(name);
        let file = options.open(&temporary)?;
        // Where files cannot be locked, no process removes the leftovers of another either.
        let _ = file.lock();
        // Until it was locked, another process may have taken it for a leftover.
        if temporary.exists() {
            return Ok((temporary, file));
        }
    }
}

/// Removes temporary files of processes that were killed while they wrote.
fn remove_leftovers(path: &Path) {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return };
    let beginning = format!("{name}{TEMPORARY}");
    let is_leftover = |name: &str| {
        let number = name.strip_prefix(&beginning);
        number.is_some_and(|number| number.len() == 16 && number.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    let files = fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    for temporary in files.filter(|file| file.file_name().to_str().is_some_and(is_leftover)) {
        let temporary = temporary.path();
        // Locked until it is removed: its creator checks for it once it has the lock.
        if let Ok(file) = File::open(&temporary)
            && file.try_lock().is_ok()
        {
            // A leftover that stays only takes space.
            let _ = fs::remove_file(temporary);
        }
    }
}
