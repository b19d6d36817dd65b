//! The builder of an [`SqliteStore`].

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate_core::{StoreError, StoreErrorKind};
use tokio::sync::watch;

use super::error::store_error;
use super::file::DatabaseFile;
use super::queue::JobQueue;
use super::reader::ReaderThread;
use super::schema::{TableSchema, table_name};
use super::wal::WalCheckpointer;
use super::writer::{SWEEP_ROWS, WriterThread};
use super::{Inner, SqliteStore};
use crate::clock::{Clock, SystemClock};
use crate::store::secret::Secret;
use crate::store::table::{RowKeyEncoder, TableName};

/// The durability of a decision when it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// The operating system has the decision. A killed process loses nothing. If the machine loses power or its system
    /// crashes, the decisions since the last checkpoint of the log may be lost. The file stays intact.
    #[default]
    Normal,
    /// The disk has the decision. No answered decision is lost, and every commit waits for the disk.
    Full,
}

/// A builder of an [`SqliteStore`] with other settings than the defaults.
#[derive(Clone)]
pub struct SqliteStoreBuilder {
    table: TableName,
    synchronous: Synchronous,
    busy_timeout: Duration,
    clock: Arc<dyn Clock>,
    row_keys: RowKeyEncoder,
}

impl Default for SqliteStoreBuilder {
    fn default() -> Self {
        SqliteStoreBuilder {
            table: TableName::default(),
            synchronous: Synchronous::default(),
            busy_timeout: Duration::from_secs(5),
            clock: Arc::new(SystemClock),
            row_keys: RowKeyEncoder::default(),
        }
    }
}

impl SqliteStoreBuilder {
    /// Sets the name of the table. Defaults to `tidegate`. It consists of up to 40 letters, digits and underscores.
    pub fn table(mut self, name: &str) -> Result<Self, StoreError> {
        self.table = table_name(name)?;
        Ok(self)
    }

    /// Sets the durability of a decision when it is answered. Defaults to [`Synchronous::Normal`].
    #[must_use]
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets the longest wait for the lock of another process, or of a transaction in this one. Defaults to 5 seconds. A
    /// [timeout](crate::resilience::TimeoutStore) around the store lets callers give up earlier, and a call that was
    /// given up takes nothing.
    #[must_use]
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
    }

    /// Sets the clock of the store. Defaults to the system's clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Hashes keys with HMAC-SHA256 under this secret, so that the file shows no user id and no address. Every process
    /// needs the same secret. With another secret, every key is reset.
    #[must_use]
    pub fn hash_keys(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.row_keys.secret = Some(Secret::new(secret.as_ref()));
        self
    }

    /// Opens the file, and creates it and the table if they are missing. The folder must exist.
    ///
    /// This reads and writes the file, and waits for up to the busy timeout while another process has locked it. Call
    /// it when a program starts, or with `tokio::task::spawn_blocking`.
    pub fn open(self, path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        let SqliteStoreBuilder { table, synchronous, busy_timeout, clock, row_keys } = self;
        let (path, table) = (path.as_ref(), Arc::new(TableSchema::new(table)));
        let file = DatabaseFile::new(path, busy_timeout)?;
        let (mut write_connection, read_connection) = (file.writer(synchronous, &table)?, file.reader()?);
        let wal =
            WalCheckpointer::install(&mut write_connection).map_err(|error| store_error(error, &write_connection))?;
        let [writer_queue, reader_queue] = [(); 2].map(|()| Arc::new(JobQueue::default()));
        let (ended_sender, ended_receiver) = watch::channel(());
        let reader = ReaderThread {
            connection: read_connection,
            table: Arc::clone(&table),
            clock: Arc::clone(&clock),
            busy_timeout,
            queue: Arc::clone(&reader_queue),
        };
        let reader_handle = spawn("tidegate-sqlite-reader", move || reader.run())?;
        // From here on, dropping `inner` closes the queues, which ends the threads.
        let inner = Inner {
            row_keys,
            table: Arc::clone(&table),
            clock: Arc::clone(&clock),
            writer_queue: Arc::clone(&writer_queue),
            reader_queue: Arc::clone(&reader_queue),
            ended_receiver,
            path: path.to_owned(),
        };
        let writer = WriterThread {
            connection: write_connection,
            wal,
            table,
            clock,
            busy_timeout,
            queue: writer_queue,
            reader_queue,
            reader_handle,
            ended_sender,
            // The first added row triggers a sweep, for programs that do not run for long.
            sweep_debt: SWEEP_ROWS - 2,
        };
        spawn("tidegate-sqlite", move || writer.run())?;
        Ok(SqliteStore { inner: Arc::new(inner) })
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>, StoreError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| {
        StoreError::caused_by(StoreErrorKind::Unavailable, "sqlite: the store's thread cannot be started", error)
    })
}

impl SqliteStore {
    /// Opens a store in a file with the defaults: see [`SqliteStoreBuilder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::builder().open(path)
    }

    /// Returns a builder, for a store with other settings than the defaults.
    pub fn builder() -> SqliteStoreBuilder {
        SqliteStoreBuilder::default()
    }
}
