//! The rows of an object, in its SQLite.

use std::cell::Cell;

use serde::Serialize;
use tidegate::{StoreError, StoreErrorKind};
use worker::{SqlStorage, SqlStorageValue};

use super::rows::{LARGEST, Row, Rows, Unwritten};
use crate::Shards;

/// The largest whole number that JavaScript is exact about: in microseconds, the year 2255.
const EXACT: u64 = (1 << 53) - 1;

/// The rows of an object, in its SQLite. Nothing is there before the first write.
pub(super) struct SqlRows {
    sql: SqlStorage,
    /// How many objects there are, once that is settled.
    shards: Cell<Option<u16>>,
    written: Cell<bool>,
}

impl SqlRows {
    /// What is in this storage.
    pub(super) fn open(sql: SqlStorage) -> Result<Self, StoreError> {
        let rows = SqlRows { sql, shards: Cell::new(None), written: Cell::new(false) };
        let tables = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'tidegate_shards'";
        if rows.numbers(tables, Vec::new())?.first() == Some(&1) {
            let settled = rows.numbers("SELECT shards FROM tidegate_shards", Vec::new())?;
            rows.shards.set(settled.first().and_then(|shards| u16::try_from(*shards).ok()));
        }
        Ok(rows)
    }

    /// How many objects there are, once that is settled.
    pub(super) fn shards(&self) -> Option<u16> {
        self.shards.get()
    }

    /// Settles how many objects there are, and makes the tables.
    pub(super) fn settle(&self, shards: Shards) -> Result<(), StoreError> {
        self.run(
            "CREATE TABLE IF NOT EXISTS tidegate (
                 name TEXT PRIMARY KEY, value BLOB NOT NULL, new_at INTEGER NOT NULL, given INTEGER NOT NULL
             ) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS tidegate_shards (only_one INTEGER PRIMARY KEY, shards INTEGER NOT NULL)",
            Vec::new(),
        )?;
        let settled = vec![SqlStorageValue::Integer(shards.count().into())];
        self.run("INSERT OR IGNORE INTO tidegate_shards VALUES (1, ?)", settled)?;
        self.shards.set(Some(shards.count()));
        Ok(())
    }

    /// How many rows there are, which takes a look at each.
    pub(super) fn count(&self) -> Result<u64, StoreError> {
        self.number("SELECT count(*) FROM tidegate")
    }

    /// Whether there is no row.
    pub(super) fn is_empty(&self) -> Result<bool, StoreError> {
        self.number("SELECT EXISTS (SELECT 1 FROM tidegate)").map(|exists| exists == 0)
    }

    /// Whether anything was written since this was asked last.
    pub(super) fn was_written(&self) -> bool {
        self.written.take()
    }

    fn number(&self, statement: &str) -> Result<u64, StoreError> {
        if self.shards.get().is_none() {
            return Ok(0);
        }
        Ok(self.numbers(statement, Vec::new())?.first().map_or(0, |number| number.unsigned_abs()))
    }

    fn run(&self, statement: &str, bindings: Vec<SqlStorageValue>) -> Result<worker::SqlCursor, StoreError> {
        self.sql.exec(statement, bindings).map_err(failed)
    }

    /// The first column of every row.
    fn numbers(&self, statement: &str, bindings: Vec<SqlStorageValue>) -> Result<Vec<i64>, StoreError> {
        let rows = self.run(statement, bindings)?.raw();
        rows.map(|row| match row.map_err(failed)?.first() {
            Some(SqlStorageValue::Integer(number)) => Ok(*number),
            other => Err(odd(&format!("{other:?} is no number"))),
        })
        .collect()
    }

    /// The first column of every row.
    fn texts(&self, statement: &str, bindings: Vec<SqlStorageValue>) -> Result<Vec<String>, StoreError> {
        let rows = self.run(statement, bindings)?.raw();
        rows.map(|row| match row.map_err(failed)?.into_iter().next() {
            Some(SqlStorageValue::String(text)) => Ok(text),
            other => Err(odd(&format!("{other:?} is no text"))),
        })
        .collect()
    }

    fn writable(&self) -> Result<(), Unwritten> {
        if self.shards.get().is_none() { Err(Unwritten::Unsettled) } else { Ok(()) }
    }
}

/// A row as one element of a list in JSON, which SQLite takes apart: a statement has at most 100 parameters.
#[derive(Serialize)]
struct Listed<'a>(&'a str, String, u64, bool);

impl Rows for SqlRows {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        if self.shards.get().is_none() {
            return Ok(None);
        }
        let mut rows = self.run("SELECT value FROM tidegate WHERE name = ?", vec![name.into()])?.raw();
        match rows.next().transpose().map_err(failed)?.map(|row| row.into_iter().next()) {
            None => Ok(None),
            Some(Some(SqlStorageValue::Blob(value))) => Ok(Some(value)),
            Some(other) => Err(odd(&format!("{other:?} is no value"))),
        }
    }

    fn write(&self, rows: &[Row]) -> Result<(), Unwritten> {
        self.writable()?;
        rows.iter().try_for_each(fits).map_err(Unwritten::Failed)?;
        let written = match rows {
            [row] => self.run(
                "INSERT INTO tidegate VALUES (?, ?, ?, ?)
                 ON CONFLICT DO UPDATE SET value = excluded.value, new_at = excluded.new_at, given = excluded.given",
                vec![
                    row.name.as_str().into(),
                    row.value.clone().into(),
                    SqlStorageValue::Integer(row.new_at.min(EXACT) as i64),
                    SqlStorageValue::Integer(row.given.into()),
                ],
            ),
            rows => {
                let lists = listed(rows);
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
        self.written.set(true);
        written.map(drop).map_err(Unwritten::Failed)
    }

    fn delete(&self, name: &str) -> Result<(), Unwritten> {
        self.writable()?;
        self.run("DELETE FROM tidegate WHERE name = ?", vec![name.into()]).map(drop).map_err(Unwritten::Failed)
    }

    fn page(&self, after: &str, page: u32) -> Result<Option<String>, StoreError> {
        if self.shards.get().is_none() {
            return Ok(None);
        }
        let bindings = vec![after.into(), SqlStorageValue::Integer(i64::from(page) - 1)];
        let statement = "SELECT name FROM tidegate WHERE name > ? ORDER BY name LIMIT 1 OFFSET ?";
        Ok(self.texts(statement, bindings)?.into_iter().next())
    }

    fn forget(&self, after: &str, last: Option<&str>, now: u64, given: bool) -> Result<Vec<String>, StoreError> {
        if self.shards.get().is_none() {
            return Ok(Vec::new());
        }
        let mut bindings =
            vec![after.into(), SqlStorageValue::Integer(now.min(EXACT) as i64), SqlStorageValue::Integer(given.into())];
        let mut statement = "DELETE FROM tidegate WHERE name > ? AND new_at <= ? AND given = ?".to_owned();
        if let Some(last) = last {
            statement.push_str(" AND name <= ?");
            bindings.push(last.into());
        }
        self.texts(&(statement + " RETURNING name"), bindings)
    }
}

/// Whether a row can be written.
fn fits(row: &Row) -> Result<(), StoreError> {
    match row.value.len() {
        0..=LARGEST => Ok(()),
        // Not an outage, which a limit may be open in: it will not fit the next time either.
        found => Err(StoreError::new(
            StoreErrorKind::Unsupported,
            format!(
                "what there is to remember of the key has grown to {found} bytes, of which an object keeps {LARGEST}: \
                     use a sliding_window in place of a sliding_log, or several keys"
            ),
        )),
    }
}

/// How long a list may become, before the next one begins: the storage takes two million bytes of a text.
const LIST: usize = 1_000_000;

/// Rows as lists in JSON, each short enough to be bound. Whatever is in them, they are one statement.
fn listed(rows: &[Row]) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for row in rows {
        let listed = Listed(&row.name, hexadecimal(&row.value), row.new_at.min(EXACT), row.given);
        let listed = serde_json::to_string(&listed).expect("texts and numbers are JSON");
        match lists.last_mut().filter(|list| list.len() + listed.len() < LIST) {
            Some(list) => list.push(','),
            None => lists.push("[".to_owned()),
        }
        if let Some(list) = lists.last_mut() {
            list.push_str(&listed);
        }
    }
    lists.iter_mut().for_each(|list| list.push(']'));
    lists
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn failed(error: worker::Error) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("the object's storage: {error}"))
}

fn odd(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("the object's storage: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_listed_in_texts_that_the_storage_takes() {
        let row = |n: usize, name: usize, value: usize| Row {
            name: format!("{n}{}", "|".repeat(name)),
            value: vec![7; value],
            new_at: u64::MAX,
            given: false,
        };
        let rows: Vec<_> =
            (0..1_000).map(|n| row(n, 12_000, 90)).chain([row(1_000, 12_000, LARGEST), row(1_001, 3, 9)]).collect();
        assert!(rows.iter().all(|row| fits(row).is_ok()));
        assert_eq!(fits(&row(0, 1, LARGEST + 1)).unwrap_err().kind(), StoreErrorKind::Unsupported);
        let lists = listed(&rows);
        assert!(lists.len() <= 100 && lists.iter().all(|list| list.len() < 2_000_000), "{}", lists.len());
        let read: Vec<_> = lists
            .iter()
            .flat_map(|list| serde_json::from_str::<Vec<(String, String, u64, bool)>>(list).unwrap())
            .collect();
        assert_eq!(read.len(), rows.len());
        for (read, row) in read.iter().zip(&rows) {
            assert_eq!((&read.0, &read.1, read.2), (&row.name, &hexadecimal(&row.value), EXACT));
        }
    }
}
