//! What memory holds, kept in a file from one run to the next.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tidegate::{MemoryStore, MemoryStoreBuilder};
use tracing::info;

use crate::failure::Failure;

/// The store as the file has it; a new one when there is no file. One that is there and cannot be read is an error: to go
/// on without it would be an amnesty.
pub(super) fn load(path: &Path, builder: MemoryStoreBuilder) -> Result<MemoryStore, Failure> {
    let place = path.display();
    // Better now than when it ends, and all it holds would be lost.
    open_beside(path).and_then(|(beside, _)| fs::remove_file(beside)).map_err(|error| {
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

/// Puts what the store holds into the file, whole or not at all.
pub(super) fn save(path: &Path, store: &MemoryStore) -> io::Result<u64> {
    let (beside, file) = open_beside(path)?;
    let written = write(&file, store).and_then(|keys| fs::rename(&beside, path).map(|()| keys));
    if written.is_err() {
        // What is left of it is of no use to anybody.
        let _ = fs::remove_file(&beside);
    }
    let keys = written?;
    // Its name is in the folder, which may reach the disk later than the file; or does so when it likes, where folders cannot be synced.
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

/// What is between the name of a snapshot and a number in the names of those that are being written.
const BESIDE: &str = ".new-";

/// A new file beside the one that is to be replaced, locked for as long as somebody writes it. Its number is nobody else's: the
/// process that has just ended may still write its own, and in a container both are number one.
fn open_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut options = File::options();
    options.write(true).create_new(true);
    // Who can read it can choose keys that meet in one place.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("{BESIDE}{:016x}", RandomState::new().hash_one(())));
        let beside = PathBuf::from(name);
        let file = options.open(&beside)?;
        // Where files cannot be locked, nobody removes what another has left either.
        let _ = file.lock();
        // Before it was locked, it looked like something that was left behind.
        if beside.exists() {
            return Ok((beside, file));
        }
    }
}

/// Removes what processes have left behind that were killed while they wrote.
fn remove_leftovers(path: &Path) {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return };
    let beginning = format!("{name}{BESIDE}");
    let is_ours = |name: &str| {
        let number = name.strip_prefix(&beginning);
        number.is_some_and(|number| number.len() == 16 && number.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    let files = fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    for beside in files.filter(|file| file.file_name().to_str().is_some_and(is_ours)) {
        let beside = beside.path();
        // Locked until it is gone: who has just made it looks for it once it is unlocked.
        if let Ok(file) = File::open(&beside)
            && file.try_lock().is_ok()
        {
            // It is only in the way.
            let _ = fs::remove_file(beside);
        }
    }
}
