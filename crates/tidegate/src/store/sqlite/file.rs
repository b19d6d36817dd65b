//! The database file, and the connections to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tidegate_core::{StoreError, StoreErrorKind};

use super::Synchronous;
use super::busy_retry::retry_while_busy;
use super::error::{file_error, file_name, store_error};
use super::schema::TableSchema;

/// The page cache of the writing connection in KiB: the rows of some 100,000 keys. SQLite's default of 2,000 is soon too
/// small, and then every decision reads from the file again.
const CACHE_KIB: i64 = 16_000;

/// The database file, which opens connections.
pub(super) struct DatabaseFile {
    path: PathBuf,
    busy_timeout: Duration,
}

impl DatabaseFile {
    pub(super) fn new(path: &Path, busy_timeout: Duration) -> Result<Self, StoreError> {
        let text = path.to_string_lossy();
        let advice = match &*text {
            "" | ":memory:" => {
                "a database that nobody else sees and that ends with the process: use MemoryStore for that"
            }
            text if text.starts_with("file:") => {
                "a URI: give the path alone, settings are methods of SqliteStoreBuilder"
            }
            _ => return Ok(DatabaseFile { path: path.to_owned(), busy_timeout }),
        };
        Err(unsupported(format!("sqlite: {text:?} is {advice}")))
    }

    /// Opens a connection that writes, and creates the table if it is missing.
    pub(super) fn writer(&self, synchronous: Synchronous, table: &TableSchema) -> Result<Connection, StoreError> {
        create_private(&self.path);
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        let to_store_error = |error| store_error(error, &connection);
        if connection.is_readonly("main").map_err(to_store_error)? {
            // SQLite opens such a file all the same.
            let reason =
                "can be read but not written: the file or its mount is read-only, and a limit has to be written";
            return Err(StoreError::new(
                StoreErrorKind::Unavailable,
                format!("sqlite: {} {reason}", file_name(&connection)),
            ));
        }
        let mode: String = self
            .retry_while_busy(|| connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))
            .map_err(to_store_error)?;
        if mode != "wal" {
            let file = file_name(&connection);
            return Err(unsupported(format!("sqlite: {file} stays in journal mode {mode:?} where WAL is needed")));
        }
        let level = match synchronous {
            Synchronous::Normal => "NORMAL",
            Synchronous::Full => "FULL",
        };
        connection.pragma_update(None, "synchronous", level).map_err(to_store_error)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(to_store_error)?;
        let table_exists = || self.retry_while_busy(|| table.exists(&connection)).map_err(to_store_error)?;
        if !table_exists()? {
            self.retry_while_busy(|| table.create(&connection)).map_err(to_store_error)?;
            table_exists()?;
        }
        Ok(connection)
    }

    /// Opens a connection that only reads.
    pub(super) fn reader(&self) -> Result<Connection, StoreError> {
        self.open(OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn open(&self, flags: OpenFlags) -> Result<Connection, StoreError> {
        // One thread at a time uses the connection, so it needs no mutex.
        let connection = Connection::open_with_flags(&self.path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
        let connection = connection.map_err(|error| file_error(error, &self.path.to_string_lossy()))?;
        // `retry_while_busy` waits instead of SQLite.
        connection.busy_timeout(Duration::ZERO).map_err(|error| store_error(error, &connection))?;
        Ok(connection)
    }

    fn retry_while_busy<T>(&self, attempt: impl FnMut() -> Result<T, rusqlite::Error>) -> Result<T, rusqlite::Error> {
        retry_while_busy(self.busy_timeout, || true, attempt)
    }
}

/// Creates a missing file that only its owner can read and write: it holds names and addresses of clients. SQLite gives its log
/// and its index the permissions of the file.
fn create_private(path: &Path) {
    #[cfg(unix)]
    if !path.exists() {
        use std::os::unix::fs::OpenOptionsExt;
        // SQLite reports the error of a file that cannot be created.
        let _ = std::fs::File::options().write(true).create(true).truncate(false).mode(0o600).open(path);
    }
    #[cfg(not(unix))]
    let _ = path;
}

fn unsupported(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, message)
}

/// Returns a path at which no file exists.
#[cfg(test)]
pub(super) fn temporary_path() -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("tidegate-file-{}-{}.db", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    // An earlier process with the same id may have left a file.
    let _ = std::fs::remove_file(&path);
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::table::TableName;

    #[cfg(unix)]
    #[test]
    fn created_files_are_readable_by_their_owner_only() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let [path, link] = [(); 2].map(|()| temporary_path());
        // A link to a file that does not exist yet, as in a container.
        symlink(&path, &link).unwrap();
        let table = TableSchema::new(TableName::default());
        let writer = DatabaseFile::new(&link, Duration::ZERO).unwrap().writer(Synchronous::Normal, &table).unwrap();
        for ending in ["", "-wal", "-shm"] {
            let mut name = path.clone().into_os_string();
            name.push(ending);
            let mode = std::fs::metadata(&name).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", name.display());
        }
        // The permissions of a file that exists are its owner's choice.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        drop(writer);
        drop(DatabaseFile::new(&path, Duration::ZERO).unwrap().writer(Synchronous::Normal, &table).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(link).unwrap();
    }

    #[test]
    fn connections_have_the_requested_pragmas() {
        for (synchronous, level) in [(Synchronous::Normal, 1), (Synchronous::Full, 2)] {
            let path = temporary_path();
            let file = DatabaseFile::new(&path, Duration::ZERO).unwrap();
            let writer = file.writer(synchronous, &TableSchema::new(TableName::default())).unwrap();
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
