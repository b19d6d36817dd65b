//! The stores of the tests, and their contents, read without the program.

mod look;

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_servers::variable;

/// A store for `--store`.
pub(crate) struct Store {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Memory,
    Sqlite,
    Redis,
    Postgres,
}

impl Store {
    pub(crate) fn memory() -> Self {
        Store { name: "memory", url: "memory".to_owned(), kind: Kind::Memory }
    }

    /// A file of its own, removed with this.
    pub(crate) fn sqlite() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let url = format!("sqlite:{}/store-{process}-{next}.db", env!("CARGO_TARGET_TMPDIR"));
        Store { name: "sqlite", url, kind: Kind::Sqlite }
    }

    pub(crate) fn redis() -> Self {
        Store { name: "redis", url: variable("TIDEGATE_REDIS_URL"), kind: Kind::Redis }
    }

    pub(crate) fn valkey() -> Self {
        Store { name: "valkey", url: variable("TIDEGATE_VALKEY_URL"), kind: Kind::Redis }
    }

    pub(crate) fn postgres() -> Self {
        Store { name: "postgres", url: variable("TIDEGATE_POSTGRES_URL"), kind: Kind::Postgres }
    }

    /// How many keys there are of the replay that was, or is, the process `id`.
    pub(crate) fn held(&self, id: u32) -> usize {
        let prefix = format!("simulate-{id}-");
        match self.kind {
            Kind::Memory => 0,
            Kind::Sqlite => look::sqlite(self.path()),
            Kind::Redis => look::redis(&self.url, &prefix),
            Kind::Postgres => look::postgres(&self.url, &prefix),
        }
    }

    fn path(&self) -> &str {
        self.url.strip_prefix("sqlite:").expect("a file")
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Kind::Sqlite = self.kind {
            // SQLite leaves the two other files only if a program was killed.
            for ending in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{ending}", self.path()));
            }
        }
    }
}
