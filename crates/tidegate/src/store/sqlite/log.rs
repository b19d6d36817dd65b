//! The log that SQLite writes ahead, and when it is brought into the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, Error};

/// How many pages the log has when it is brought into the file: as many as SQLite itself takes for that, 4 MB.
const LONG: usize = 1_000;

/// The log of a connection. SQLite would bring it into the file at the end of a commit, for which somebody waits, and never
/// while a row is still being read.
pub(super) struct Log {
    pages: Arc<AtomicUsize>,
}

impl Log {
    /// That of a connection, which leaves it to others from now on to bring it into the file.
    pub(super) fn of(connection: &mut Connection) -> Result<Self, Error> {
        let pages = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut Wal, pages| {
            counted.store(usize::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Log { pages })
    }

    /// Brings it into the file when it is long.
    pub(super) fn shorten(&self, connection: &Connection) {
        if self.pages.load(Ordering::Relaxed) >= LONG {
            // As far as nobody else reads it. The next commit says how long it is then, and whether to go on with it.
            self.pages.store(0, Ordering::Relaxed);
            let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    }
}
