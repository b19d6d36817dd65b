//! From a URL to a store.

use std::error::Error;
use std::time::Duration;

use tidegate::StoreError;
use tidegate::postgres::PostgresStore;
use tidegate::redis::RedisStore;
use tidegate::sqlite::SqliteStore;
use tokio::time::timeout;

use super::{Kind, StoreUrl};
use crate::failure::Failure;

/// How long a server may take to let somebody in. The stores give up earlier on one that is not there.
const PATIENCE: Duration = Duration::from_secs(15);

/// A store that is open.
pub(crate) enum Opened {
    Sqlite(SqliteStore),
    Redis(RedisStore),
    Postgres(PostgresStore),
}

impl StoreUrl {
    /// Opens the store; none for memory, which has nothing to open.
    pub(crate) async fn open(&self) -> Result<Option<Opened>, Failure> {
        let opened = timeout(PATIENCE, self.connect()).await;
        let opened = opened.unwrap_or_else(|_| Err(format!("no answer within {} seconds", PATIENCE.as_secs())));
        opened.map_err(|why| {
            let advice = self.how_to_open().unwrap_or_default();
            Failure::Store(format!("{self} cannot be used: {why}\n{advice}"))
        })
    }

    async fn connect(&self) -> Result<Option<Opened>, String> {
        let opened = match &self.0 {
            Kind::Memory => return Ok(None),
            Kind::Sqlite(path) if path.is_dir() => return Err("that is a folder".to_owned()),
            Kind::Sqlite(path) => SqliteStore::open(path).map(Opened::Sqlite),
            Kind::Redis(address) => RedisStore::connect(address.with_password()).await.map(Opened::Redis),
            Kind::Postgres(address) => PostgresStore::connect(address.with_password()).await.map(Opened::Postgres),
        };
        opened.map(Some).map_err(|error| self.in_full(&error))
    }

    /// An error of this store, with what is behind it where that says more.
    pub(crate) fn in_full(&self, error: &StoreError) -> String {
        let text = error.to_string();
        // What could not be read of an address may be a part of a password; and SQLite's errors are complete.
        if !error.is_retryable() || matches!(self.0, Kind::Sqlite(_)) {
            return text;
        }
        let mut cause: &dyn Error = error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    }
}
