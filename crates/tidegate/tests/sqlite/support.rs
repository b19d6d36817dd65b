//! Files in folders of their own, and whoever else looks into them.

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

/// What a key may have in a test, of which nothing comes back while it runs.
pub(crate) const CAPACITY: u64 = 5;

/// A folder that is removed with all that is in it.
pub(crate) struct Folder(PathBuf);

/// A store that waits for a lock for as long as a test holds it, however slow the machine.
pub(crate) fn patient() -> SqliteStoreBuilder {
    SqliteStore::builder().busy_timeout(seconds(300))
}

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tidegate-sqlite-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The database in it.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("limits.db")
    }

    /// How long the log beside it is.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.0.join("limits.db-wal").metadata().expect("a log").len()
    }

    pub(crate) fn store(&self) -> SqliteStore {
        self.store_with(patient())
    }

    pub(crate) fn store_with(&self, builder: SqliteStoreBuilder) -> SqliteStore {
        builder.open(self.file()).unwrap()
    }

    /// A connection of somebody else's.
    pub(crate) fn connection(&self) -> Connection {
        Connection::open(self.file()).unwrap()
    }

    /// Keeps everybody else from writing until it is dropped.
    pub(crate) fn lock(&self) -> Lock {
        let connection = self.connection();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Lock { _connection: connection }
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> u64 {
        rows(&self.connection())
    }

    /// What `PRAGMA integrity_check` says.
    pub(crate) fn integrity(&self) -> String {
        self.connection().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
    }

    /// The names of the files in it, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.0).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<_> = files.collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A store that has just been dropped may be removing files itself.
        let _ = (0..100).find(|_| std::fs::remove_dir_all(&self.0).is_ok() || !self.0.exists());
    }
}

/// A write lock; a connection that ends in a transaction rolls it back.
pub(crate) struct Lock {
    _connection: Connection,
}

pub(crate) fn rows(connection: &Connection) -> u64 {
    connection.query_row("SELECT count(*) FROM tidegate", [], |row| row.get::<_, i64>(0)).unwrap() as u64
}

/// One runtime for all tests that need one, beside the threads of the tests: those may block.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    // What hangs fails, and does not keep the others from being tried.
    RUNTIME.block_on(async { tokio::time::timeout(seconds(60), work).await }).expect("it does not end")
}

/// The answer to a call, waited for.
pub(crate) fn ask(call: Call<'_>) -> Result<Decision, Error> {
    run(call.into_future())
}

/// A limiter with one limit, `a`, of [`CAPACITY`].
pub(crate) fn limiter(store: &SqliteStore) -> Limiter {
    limiter_of(store, Quota::token_bucket(1, MAX_PERIOD).unwrap().capacity(CAPACITY).unwrap())
}

/// A limiter with one limit, `a`.
pub(crate) fn limiter_of(store: &SqliteStore, quota: Quota) -> Limiter {
    Limiter::builder().prefix("shop").limit("a", quota).bare_store(store.clone()).build().unwrap()
}

/// What a key of the limit `a` has left.
pub(crate) fn left(limiter: &Limiter, key: &str) -> u64 {
    ask(limiter.check("a", key)).unwrap().remaining()
}

/// A call that has been made and not been waited for.
pub(crate) type Started<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Makes a call, whose answer cannot be there yet.
pub(crate) fn start<'a, T: 'a>(call: impl Future<Output = T> + 'a) -> Started<'a, T> {
    try_start(call).unwrap_or_else(|_| panic!("it was answered at once"))
}

/// Makes a call; the answer if it is there at once.
pub(crate) fn try_start<'a, T: 'a>(call: impl Future<Output = T> + 'a) -> Result<Started<'a, T>, T> {
    let mut call: Started<'a, T> = Box::pin(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Err(answer),
        Poll::Pending => Ok(call),
    }
}
