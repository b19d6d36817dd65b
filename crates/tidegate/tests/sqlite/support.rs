//! Stores on files in temporary folders, and other connections to these files.

use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use rusqlite::Connection;
use tidegate::sqlite::{SqliteStore, SqliteStoreBuilder};
use tidegate::{Call, Decision, Error, Limiter, MAX_PERIOD, Quota, seconds};
use tokio::runtime::{Builder, Runtime};

/// The capacity of a key in a test. Nothing is replenished while the test runs.
pub(crate) const CAPACITY: u64 = 5;

/// A folder that is removed with its content on drop.
pub(crate) struct TempFolder(PathBuf);

/// A builder of a store that waits for a lock as long as any test holds it.
pub(crate) fn patient_builder() -> SqliteStoreBuilder {
    SqliteStore::builder().busy_timeout(seconds(300))
}

impl TempFolder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tidegate-sqlite-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        TempFolder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the database.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("limits.db")
    }

    /// Returns the length of the log.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.0.join("limits.db-wal").metadata().expect("a log").len()
    }

    pub(crate) fn store(&self) -> SqliteStore {
        self.store_with(patient_builder())
    }

    pub(crate) fn store_with(&self, builder: SqliteStoreBuilder) -> SqliteStore {
        builder.open(self.file()).unwrap()
    }

    /// Opens another connection to the database.
    pub(crate) fn connection(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }

    /// Locks the database against writes until the lock is dropped.
    pub(crate) fn lock(&self) -> WriteLock {
        let connection = self.connection();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        WriteLock { _connection: connection }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u64 {
        rows(&self.connection())
    }

    /// Returns the result of `PRAGMA integrity_check`.
    pub(crate) fn integrity(&self) -> String {
        self.connection().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
    }

    /// Returns the names of the files in the folder, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.0).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<_> = files.collect();
        files.sort();
        files
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // A store that has just been dropped may be removing files itself.
        let _ = (0..100).find(|_| std::fs::remove_dir_all(&self.0).is_ok() || !self.0.exists());
    }
}

/// A write lock. A connection that ends in a transaction rolls it back.
pub(crate) struct WriteLock {
    _connection: Connection,
}

pub(crate) fn rows(connection: &Connection) -> u64 {
    connection.query_row("SELECT count(*) FROM tidegate", [], |row| row.get::<_, i64>(0)).unwrap() as u64
}

/// One runtime for all tests that need one, separate from the threads of the tests, which may block.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    // A test that hangs fails, and does not keep others from running.
    RUNTIME.block_on(async { tokio::time::timeout(seconds(60), work).await }).expect("it does not end")
}

/// Waits for the decision of a call.
pub(crate) fn decide(call: Call<'_>) -> Result<Decision, Error> {
    run(call.into_future())
}

/// A limiter with one limit, `a`, of [`CAPACITY`].
pub(crate) fn limiter(store: &SqliteStore) -> Limiter {
    limiter_with_quota(store, Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(CAPACITY).unwrap())
}

/// A limiter with one limit, `a`.
pub(crate) fn limiter_with_quota(store: &SqliteStore, quota: Quota) -> Limiter {
    Limiter::builder().prefix("shop").limit("a", quota).bare_store(store.clone()).build().unwrap()
}

/// Returns what a key of the limit `a` has left.
pub(crate) fn remaining(limiter: &Limiter, key: &str) -> u64 {
    decide(limiter.check("a", key)).unwrap().remaining()
}

/// A call that was polled once and is not ready.
pub(crate) type PendingCall<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Polls a call once. Its result cannot be ready yet.
pub(crate) fn start_call<'a, T: 'a>(call: impl Future<Output = T> + 'a) -> PendingCall<'a, T> {
    try_start_call(call).unwrap_or_else(|_| panic!("it was answered at once"))
}

/// Polls a call once. Returns its result as an error if it is ready at once.
pub(crate) fn try_start_call<'a, T: 'a>(call: impl Future<Output = T> + 'a) -> Result<PendingCall<'a, T>, T> {
    let mut call: PendingCall<'a, T> = Box::pin(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Err(answer),
        Poll::Pending => Ok(call),
    }
}
