//! How an [`SqliteStore`] is made.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate_core::{StoreError, StoreErrorKind};
use tokio::sync::watch;

use super::error::store_error;
use super::file::File;
use super::log::Log;
use super::queue::Queue;
use super::reader::Reader;
use super::schema::{Table, table_name};
use super::writer::{SWEEP, Writer};
use super::{Inner, SqliteStore};
use crate::clock::{Clock, SystemClock};
use crate::store::secret::Secret;
use crate::store::table::{Rows, TableName};

/// What has reached the disk when a decision is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// The operating system has it. A process that is killed loses nothing; when the machine loses power, or its system
    /// crashes, the last decisions may be lost, those since the log was last brought into the file. The file itself is
    /// whole afterwards.
    #[default]
    Normal,
    /// The disk has it. Nothing that was answered is lost, and every commit waits for the disk.
    Full,
}

/// How an [`SqliteStore`] with other settings is made.
#[derive(Clone)]
pub struct SqliteStoreBuilder {
    table: TableName,
    synchronous: Synchronous,
    busy_timeout: Duration,
    clock: Arc<dyn Clock>,
    rows: Rows,
}

impl Default for SqliteStoreBuilder {
    fn default() -> Self {
        SqliteStoreBuilder {
            table: TableName::default(),
            synchronous: Synchronous::default(),
            busy_timeout: Duration::from_secs(5),
            clock: Arc::new(SystemClock),
            rows: Rows::default(),
        }
    }
}

impl SqliteStoreBuilder {
    /// The table's name: `tidegate` unless said otherwise. Letters, digits and underscores, up to 40 of them.
    pub fn table(mut self, name: &str) -> Result<Self, StoreError> {
        self.table = table_name(name)?;
        Ok(self)
    }

    /// What has reached the disk when a decision is answered.
    #[must_use]
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// How long is waited for a lock that another process holds, or a transaction of this one: 5 seconds unless said
    /// otherwise. Nobody who asks has to wait that long: a [timeout](crate::resilience::TimeoutStore) around the store says
    /// how long a call may take, and what is given up while it waits spends nothing.
    #[must_use]
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
    }

    /// What the store counts by: the system's clock unless said otherwise.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Keys are hashed with HMAC-SHA256 under this secret, so that no user id and no address can be read in the file.
    /// Every process needs the same secret; with another one everybody starts anew.
    #[must_use]
    pub fn hash_keys(mut self, with: impl AsRef<[u8]>) -> Self {
        self.rows.secret = Some(Secret::new(with.as_ref()));
        self
    }

    /// Opens the file, and makes it and the table if they are missing. The folder has to be there.
    ///
    /// This reads and writes the file, and waits for up to the busy timeout while another process has locked it: do it
    /// where a program starts, or with `tokio::task::spawn_blocking` and the like.
    pub fn open(self, path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        let SqliteStoreBuilder { table, synchronous, busy_timeout, clock, rows } = self;
        let (path, table) = (path.as_ref(), Arc::new(Table::new(table)));
        let file = File::new(path, busy_timeout)?;
        let (mut writing, reading) = (file.writer(synchronous, &table)?, file.reader()?);
        let log = Log::of(&mut writing).map_err(|error| store_error(error, &writing))?;
        let [to_writer, to_reader] = [(); 2].map(|()| Arc::new(Queue::default()));
        let (ended, has_ended) = watch::channel(());
        let reader = Reader {
            connection: reading,
            table: Arc::clone(&table),
            clock: Arc::clone(&clock),
            busy_timeout,
            queue: Arc::clone(&to_reader),
        };
        let reader = spawn("tidegate-sqlite-reader", move || reader.run())?;
        // From here on, whatever happens, somebody closes the queues, and with that the threads end.
        let inner = Inner {
            rows,
            table: Arc::clone(&table),
            clock: Arc::clone(&clock),
            writer: Arc::clone(&to_writer),
            reader: Arc::clone(&to_reader),
            has_ended,
            path: path.to_owned(),
        };
        let writer = Writer {
            connection: writing,
            log,
            table,
            clock,
            busy_timeout,
            queue: to_writer,
            reader: (to_reader, reader),
            ended,
            // The first row that is added looks for others to go, for programs that do not run for long.
            owed: SWEEP - 2,
        };
        spawn("tidegate-sqlite", move || writer.run())?;
        Ok(SqliteStore { inner: Arc::new(inner) })
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>, StoreError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| {
        StoreError::caused_by(StoreErrorKind::Unavailable, "sqlite: the store's thread cannot be started", error)
    })
}

impl SqliteStore {
    /// A store in a file, with the defaults: see [`SqliteStoreBuilder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::builder().open(path)
    }

    /// How a store with other settings is made.
    pub fn builder() -> SqliteStoreBuilder {
        SqliteStoreBuilder::default()
    }
}
