//! The stores of the tests, with a key count that does not depend on the program.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::Commands;
use rusqlite::OpenFlags;
use tidegate_servers::required_env;
use tokio_postgres::NoTls;

/// A store for `--store`.
pub(crate) struct TestStore {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    kind: StoreKind,
}

#[derive(Clone, Copy)]
enum StoreKind {
    Memory,
    Sqlite,
    Redis,
    Postgres,
}

impl TestStore {
    pub(crate) fn memory() -> Self {
        TestStore { name: "memory", url: "memory".to_owned(), kind: StoreKind::Memory }
    }

    /// A file of its own, removed with this.
    pub(crate) fn sqlite() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let url = format!("sqlite:{}/store-{process}-{next}.db", env!("CARGO_TARGET_TMPDIR"));
        TestStore { name: "sqlite", url, kind: StoreKind::Sqlite }
    }

    pub(crate) fn redis() -> Self {
        TestStore { name: "redis", url: required_env("TIDEGATE_REDIS_URL"), kind: StoreKind::Redis }
    }

    pub(crate) fn valkey() -> Self {
        TestStore { name: "valkey", url: required_env("TIDEGATE_VALKEY_URL"), kind: StoreKind::Redis }
    }

    pub(crate) fn postgres() -> Self {
        TestStore { name: "postgres", url: required_env("TIDEGATE_POSTGRES_URL"), kind: StoreKind::Postgres }
    }

    /// Returns how many keys the replay with the process id `id` has in the store.
    pub(crate) fn count_keys(&self, id: u32) -> usize {
        let prefix = format!("simulate-{id}-");
        match self.kind {
            StoreKind::Memory => 0,
            StoreKind::Sqlite => count_sqlite_keys(self.path()),
            StoreKind::Redis => count_redis_keys(&self.url, &prefix),
            StoreKind::Postgres => count_postgres_keys(&self.url, &prefix),
        }
    }

    fn path(&self) -> &str {
        self.url.strip_prefix("sqlite:").expect("a file")
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        if let StoreKind::Sqlite = self.kind {
            // SQLite leaves the two other files only if a program was killed.
            for ending in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{ending}", self.path()));
            }
        }
    }
}

/// Counts all rows of a file of this test alone: long names are stored as hashes, without a prefix.
fn count_sqlite_keys(path: &str) -> usize {
    if !Path::new(path).exists() {
        return 0;
    }
    let file = rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let count = |what: &str| file.query_row(what, [], |row| row.get::<_, i64>(0)).unwrap() as usize;
    match count("SELECT count(*) FROM sqlite_schema WHERE name = 'tidegate'") {
        0 => 0,
        _ => count("SELECT count(*) FROM tidegate"),
    }
}

fn count_redis_keys(url: &str, prefix: &str) -> usize {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let keys = connection.scan_match::<_, String>(format!("{prefix}*")).unwrap();
    keys.map(Result::unwrap).collect::<std::collections::HashSet<_>>().len()
}

fn count_postgres_keys(url: &str, prefix: &str) -> usize {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let there = client.query_one("SELECT to_regclass('tidegate') IS NOT NULL", &[]).await.unwrap();
        if !there.get::<_, bool>(0) {
            return 0;
        }
        let count = "SELECT count(*) FROM tidegate WHERE position($1::bytea in key) = 1";
        client.query_one(count, &[&prefix.as_bytes()]).await.unwrap().get::<_, i64>(0) as usize
    })
}
