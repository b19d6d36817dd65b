//! The rows of an object in its SQLite database.

use std::cell::Cell;

use serde::Serialize;
use tidegate::{StoreError, StoreErrorKind};
use worker::{SqlStorage, SqlStorageValue};

use super::table::{MAX_VALUE_BYTES, Row, Rows, WriteError};
use crate::Shards;

/// The largest whole number that JavaScript represents exactly. In microseconds it is the year 2255.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The rows of an object in its SQLite database. There are no tables before the first write.
pub(super) struct SqlRows {
    sql: SqlStorage,
    /// The number of objects, once it is set.
    shards: Cell<Option<u16>>,
    has_written: Cell<bool>,
}

impl SqlRows {
    /// Opens the rows in this storage.
    pub(super) fn open(sql: SqlStorage) -> Result<Self, StoreError> {
        let rows = SqlRows { sql, shards: Cell::new(None), has_written: Cell::new(false) };
        let tables = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'tidegate_shards'";
        if rows.numbers(tables, Vec::new())?.first() == Some(&1) {
            let stored = rows.numbers("SELECT shards FROM tidegate_shards", Vec::new())?;
            rows.shards.set(stored.first().and_then(|shards| u16::try_from(*shards).ok()));
        }
        Ok(rows)
    }

    /// Returns the number of objects, once it is set.
    pub(super) fn shards(&self) -> Option<u16> {
        self.shards.get()
    }

    /// Creates the tables and sets the number of objects.
    pub(super) fn set_shards(&self, shards: Shards) -> Result<(), StoreError> {
        self.run(
            "CREATE TABLE IF NOT EXISTS tidegate (
                 name TEXT PRIMARY KEY, value BLOB NOT NULL, new_at INTEGER NOT NULL, given INTEGER NOT NULL
             ) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS tidegate_shards (only_one INTEGER PRIMARY KEY, shards INTEGER NOT NULL)",
            Vec::new(),
        )?;
        let count = vec![SqlStorageValue::Integer(shards.count().into())];
        self.run("INSERT OR IGNORE INTO tidegate_shards VALUES (1, ?)", count)?;
        self.shards.set(Some(shards.count()));
        Ok(())
    }

    /// Counts the rows, which reads all of them.
    pub(super) fn count(&self) -> Result<u64, StoreError> {
        self.number("SELECT count(*) FROM tidegate")
    }

    /// Returns whether there is no row.
    pub(super) fn is_empty(&self) -> Result<bool, StoreError> {
        self.number("SELECT EXISTS (SELECT 1 FROM tidegate)").map(|exists| exists == 0)
    }

    /// Returns whether anything was written since the last call.
    pub(super) fn take_has_written(&self) -> bool {
        self.has_written.take()
    }

    fn number(&self, statement: &str) -> Result<u64, StoreError> {
        if self.shards.get().is_none() {
            return Ok(0);
        }
        Ok(self.numbers(statement, Vec::new())?.first().map_or(0, |number| number.unsigned_abs()))
    }

    fn run(&self, statement: &str, bindings: Vec<SqlStorageValue>) -> Result<worker::SqlCursor, StoreError> {
        self.sql.exec(statement, bindings).map_err(storage_error)
    }

    /// Returns the first column of every row.
    fn numbers(&self, statement: &str, bindings: Vec<SqlStorageValue>) -> Result<Vec<i64>, StoreError> {
        let rows = self.run(statement, bindings)?.raw();
        rows.map(|row| match row.map_err(storage_error)?.first() {
            Some(SqlStorageValue::Integer(number)) => Ok(*number),
            other => Err(corrupt(&format!("{other:?} is no number"))),
        })
        .collect()
    }

    /// Returns the first column of every row.
    fn texts(&self, statement: &str, bindings: Vec<SqlStorageValue>) -> Result<Vec<String>, StoreError> {
        let rows = self.run(statement, bindings)?.raw();
        rows.map(|row| match row.map_err(storage_error)?.into_iter().next() {
            Some(SqlStorageValue::String(text)) => Ok(text),
            other => Err(corrupt(&format!("{other:?} is no text"))),
        })
        .collect()
    }

    fn check_writable(&self) -> Result<(), WriteError> {
        if self.shards.get().is_none() { Err(WriteError::UnsetShardCount) } else { Ok(()) }
    }
}

/// A row as an element of a JSON list, which SQLite splits. A statement has at most 100 parameters.
#[derive(Serialize)]
struct JsonRow<'a>(&'a str, String, u64, bool);

impl Rows for SqlRows {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        if self.shards.get().is_none() {
            return Ok(None);
        }
        let mut rows = self.run("SELECT value FROM tidegate WHERE name = ?", vec![name.into()])?.raw();
        match rows.next().transpose().map_err(storage_error)?.map(|row| row.into_iter().next()) {
            None => Ok(None),
            Some(Some(SqlStorageValue::Blob(value))) => Ok(Some(value)),
            Some(other) => Err(corrupt(&format!("{other:?} is no value"))),
        }
    }

    fn write(&self, rows: &[Row]) -> Result<(), WriteError> {
        self.check_writable()?;
        rows.iter().try_for_each(check_size).map_err(WriteError::Store)?;
        let result = match rows {
            [row] => self.run(
                "INSERT INTO tidegate VALUES (?, ?, ?, ?)
                 ON CONFLICT DO UPDATE SET value = excluded.value, new_at = excluded.new_at, given = excluded.given",
                vec![
                    row.name.as_str().into(),
                    row.value.clone().into(),
                    SqlStorageValue::Integer(row.new_at.min(MAX_SAFE_INTEGER) as i64),
                    SqlStorageValue::Integer(row.is_test.into()),
                ],
            ),
            rows => {
                let lists = to_json_lists(rows);
                let from: Vec<_> = (1..=lists.len()).map(|n| format!("SELECT value FROM json_each(?{n})")).collect();
                let from = from.join(" UNION ALL ");
                let statement = format!(
                    "INSERT INTO tidegate
                     SELECT value ->> 0, unhex(value ->> 1), value ->> 2, value ->> 3 FROM ({from}) WHERE true
                     ON CONFLICT DO UPDATE SET value = excluded.value, new_at = excluded.new_at, given = excluded.given"
                );
                self.run(&statement, lists.into_iter().map(SqlStorageValue::from).collect())
            }
        };
        self.has_written.set(true);
        result.map(drop).map_err(WriteError::Store)
    }

    fn delete(&self, name: &str) -> Result<(), WriteError> {
        self.check_writable()?;
        self.run("DELETE FROM tidegate WHERE name = ?", vec![name.into()]).map(drop).map_err(WriteError::Store)
    }

    fn page_end(&self, after: &str, page_rows: u32) -> Result<Option<String>, StoreError> {
        if self.shards.get().is_none() {
            return Ok(None);
        }
        let bindings = vec![after.into(), SqlStorageValue::Integer(i64::from(page_rows) - 1)];
        let statement = "SELECT name FROM tidegate WHERE name > ? ORDER BY name LIMIT 1 OFFSET ?";
        Ok(self.texts(statement, bindings)?.into_iter().next())
    }

    fn evict(&self, after: &str, last: Option<&str>, now: u64, is_test: bool) -> Result<Vec<String>, StoreError> {
        if self.shards.get().is_none() {
            return Ok(Vec::new());
        }
        let mut bindings = vec![
            after.into(),
            SqlStorageValue::Integer(now.min(MAX_SAFE_INTEGER) as i64),
            SqlStorageValue::Integer(is_test.into()),
        ];
        let mut statement = "DELETE FROM tidegate WHERE name > ? AND new_at <= ? AND given = ?".to_owned();
        if let Some(last) = last {
            statement.push_str(" AND name <= ?");
            bindings.push(last.into());
        }
        self.texts(&(statement + " RETURNING name"), bindings)
    }
}

/// Checks that a row is not too large for the storage.
fn check_size(row: &Row) -> Result<(), StoreError> {
    match row.value.len() {
        0..=MAX_VALUE_BYTES => Ok(()),
        // Not an outage, in which a limit may fail open: a retry would not fit either.
        found => Err(StoreError::new(
            StoreErrorKind::Unsupported,
            format!(
                "what there is to remember of the key has grown to {found} bytes, of which an object keeps {MAX_VALUE_BYTES}: \
                     use a sliding_window in place of a sliding_log, or several keys"
            ),
        )),
    }
}

/// The size at which a JSON list ends and the next one begins. The storage takes two million bytes of a text.
const MAX_LIST_BYTES: usize = 1_000_000;

/// Converts rows to JSON lists, each short enough to be bound. All rows fit into one statement.
fn to_json_lists(rows: &[Row]) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for row in rows {
        let element = JsonRow(&row.name, to_hex(&row.value), row.new_at.min(MAX_SAFE_INTEGER), row.is_test);
        let element = serde_json::to_string(&element).expect("texts and numbers are JSON");
        match lists.last_mut().filter(|list| list.len() + element.len() < MAX_LIST_BYTES) {
            Some(list) => list.push(','),
            None => lists.push("[".to_owned()),
        }
        if let Some(list) = lists.last_mut() {
            list.push_str(&element);
        }
    }
    lists.iter_mut().for_each(|list| list.push(']'));
    lists
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn storage_error(error: worker::Error) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("the object's storage: {error}"))
}

fn corrupt(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("the object's storage: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lists_fit_into_the_texts_of_the_storage() {
        let row = |n: usize, name: usize, value: usize| Row {
            name: format!("{n}{}", "|".repeat(name)),
            value: vec![7; value],
            new_at: u64::MAX,
            is_test: false,
        };
        let rows: Vec<_> = (0..1_000)
            .map(|n| row(n, 12_000, 90))
            .chain([row(1_000, 12_000, MAX_VALUE_BYTES), row(1_001, 3, 9)])
            .collect();
        assert!(rows.iter().all(|row| check_size(row).is_ok()));
        assert_eq!(check_size(&row(0, 1, MAX_VALUE_BYTES + 1)).unwrap_err().kind(), StoreErrorKind::Unsupported);
        let lists = to_json_lists(&rows);
        assert!(lists.len() <= 100 && lists.iter().all(|list| list.len() < 2_000_000), "{}", lists.len());
        let read: Vec<_> = lists
            .iter()
            .flat_map(|list| serde_json::from_str::<Vec<(String, String, u64, bool)>>(list).unwrap())
            .collect();
        assert_eq!(read.len(), rows.len());
        for (read, row) in read.iter().zip(&rows) {
            assert_eq!((&read.0, &read.1, read.2), (&row.name, &to_hex(&row.value), MAX_SAFE_INTEGER));
        }
    }
}
