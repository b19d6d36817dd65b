//! The file, and the connections to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tidegate_core::{StoreError, StoreErrorKind};

use super::Synchronous;
use super::error::{file, file_error, store_error};
use super::patience::patiently;
use super::schema::Table;

/// How much of the file the connection that writes keeps in memory, in KiB: the rows of some 100,000 keys. SQLite's own
/// 2,000 are soon too few, and then every decision reads from the file again.
const CACHE: i64 = 16_000;

/// The file, and how connections to it are opened.
pub(super) struct File {
    path: PathBuf,
    busy_timeout: Duration,
}

impl File {
    pub(super) fn new(path: &Path, busy_timeout: Duration) -> Result<Self, StoreError> {
        let text = path.to_string_lossy();
        let advice = match &*text {
            "" | ":memory:" => {
                "a database that nobody else sees and that ends with the process: use MemoryStore for that"
            }
            text if text.starts_with("file:") => {
                "a URI: give the path alone, settings are methods of SqliteStoreBuilder"
            }
            _ => return Ok(File { path: path.to_owned(), busy_timeout }),
        };
        Err(refused(format!("sqlite: {text:?} is {advice}")))
    }

    /// A connection that writes, to a file that has the table then.
    pub(super) fn writer(&self, synchronous: Synchronous, table: &Table) -> Result<Connection, StoreError> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        let in_words = |error| store_error(error, &connection);
        if connection.is_readonly("main").map_err(in_words)? {
            // SQLite opens such a file all the same.
            let why = "can be read but not written: the file or its mount is read-only, and a limit has to be written";
            return Err(StoreError::new(StoreErrorKind::Unavailable, format!("sqlite: {} {why}", file(&connection))));
        }
        let mode: String = self
            .patiently(|| connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))
            .map_err(in_words)?;
        if mode != "wal" {
            let file = file(&connection);
            return Err(refused(format!("sqlite: {file} stays in journal mode {mode:?} where WAL is needed")));
        }
        let level = match synchronous {
            Synchronous::Normal => "NORMAL",
            Synchronous::Full => "FULL",
        };
        connection.pragma_update(None, "synchronous", level).map_err(in_words)?;
        connection.pragma_update(None, "cache_size", -CACHE).map_err(in_words)?;
        let is_there = || self.patiently(|| table.is_there(&connection)).map_err(in_words)?;
        if !is_there()? {
            self.patiently(|| table.create(&connection)).map_err(in_words)?;
            is_there()?;
        }
        Ok(connection)
    }

    /// A connection that only reads.
    pub(super) fn reader(&self) -> Result<Connection, StoreError> {
        self.open(OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn open(&self, flags: OpenFlags) -> Result<Connection, StoreError> {
        // One thread at a time has it, so it needs no lock of its own.
        let connection = Connection::open_with_flags(&self.path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
        let connection = connection.map_err(|error| file_error(error, &self.path.to_string_lossy()))?;
        // Waiting is done around the calls.
        connection.busy_timeout(Duration::ZERO).map_err(|error| store_error(error, &connection))?;
        Ok(connection)
    }

    fn patiently<T>(&self, attempt: impl FnMut() -> Result<T, rusqlite::Error>) -> Result<T, rusqlite::Error> {
        patiently(self.busy_timeout, || true, attempt)
    }
}

fn refused(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, message)
}

/// A path at which there is nothing yet.
#[cfg(test)]
pub(super) fn temporary() -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("tidegate-file-{}-{}.db", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    // What a process of the same number may have left behind.
    let _ = std::fs::remove_file(&path);
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::table::TableName;

    #[test]
    fn connections_are_set_as_they_should_be() {
        for (synchronous, level) in [(Synchronous::Normal, 1), (Synchronous::Full, 2)] {
            let path = temporary();
            let file = File::new(&path, Duration::ZERO).unwrap();
            let writer = file.writer(synchronous, &Table::new(TableName::default())).unwrap();
            let reader = file.reader().unwrap();
            let pragma = |name| writer.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).unwrap();
            assert_eq!((pragma("synchronous"), pragma("busy_timeout")), (level, 0));
            assert_eq!(writer.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)).unwrap(), "wal");
            assert!(reader.is_readonly("main").unwrap());
            drop(reader);
            drop(writer);
            std::fs::remove_file(path).unwrap();
        }
    }
}
