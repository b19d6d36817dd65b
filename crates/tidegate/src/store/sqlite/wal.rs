//! Checkpoints of SQLite's write-ahead log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, Error};

/// The log length in pages that triggers a checkpoint. It is SQLite's own default, 4 MB.
const CHECKPOINT_PAGES: usize = 1_000;

/// The checkpointer of a connection's write-ahead log. By itself, SQLite checkpoints at the end of a commit, for which a
/// caller waits, and never while a row is still being read.
pub(super) struct WalCheckpointer {
    pages: Arc<AtomicUsize>,
}

impl WalCheckpointer {
    /// Takes over the checkpoints of a connection, which no longer makes them by itself.
    pub(super) fn install(connection: &mut Connection) -> Result<Self, Error> {
        let pages = Arc::new(AtomicUsize::new(0));
        let page_count = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut Wal, pages| {
            page_count.store(usize::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(WalCheckpointer { pages })
    }

    /// Checkpoints the log when it is long.
    pub(super) fn checkpoint_if_long(&self, connection: &Connection) {
        if self.pages.load(Ordering::Relaxed) >= CHECKPOINT_PAGES {
            // Pages that another connection still reads stay in the log. The next commit reports the length that is left.
            self.pages.store(0, Ordering::Relaxed);
            let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    }
}
