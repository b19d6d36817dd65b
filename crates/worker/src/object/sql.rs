//! The rows of an object, in its SQLite.

use std::cell::Cell;

use serde::{Deserialize, Serialize};
use tidegate::{StoreError, StoreErrorKind};
use worker::{SqlStorage, SqlStorageValue};

use super::rows::{Row, Rows, Unwritten};
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

    fn writable(&self) -> Result<(), Unwritten> {
        if self.shards.get().is_none() { Err(Unwritten::Unsettled) } else { Ok(()) }
    }
}

/// A row as one element of a list in JSON, which SQLite takes apart: so any number of rows are one statement.
#[derive(Serialize)]
struct Listed<'a>(&'a str, String, u64, bool);

#[derive(Deserialize)]
struct Seen {
    name: String,
    new_at: f64,
    given: i64,
}

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
                let listed: Vec<_> = rows
                    .iter()
                    .map(|row| Listed(&row.name, hexadecimal(&row.value), row.new_at.min(EXACT), row.given))
                    .collect();
                let list = serde_json::to_string(&listed).expect("texts and numbers are JSON");
                self.run(
                    "INSERT INTO tidegate
                     SELECT value ->> 0, unhex(value ->> 1), value ->> 2, value ->> 3 FROM json_each(?) WHERE true
                     ON CONFLICT DO UPDATE SET value = excluded.value, new_at = excluded.new_at, given = excluded.given",
                    vec![list.into()],
                )
            }
        };
        self.written.set(true);
        written.map(drop).map_err(Unwritten::Failed)
    }

    fn delete(&self, name: &str) -> Result<(), Unwritten> {
        self.writable()?;
        self.run("DELETE FROM tidegate WHERE name = ?", vec![name.into()]).map(drop).map_err(Unwritten::Failed)
    }

    fn sweep(
        &self,
        after: &str,
        page: u32,
        now: u64,
        given: bool,
        forgotten: &mut Vec<String>,
    ) -> Result<Option<String>, StoreError> {
        if self.shards.get().is_none() {
            return Ok(None);
        }
        let bindings = vec![after.into(), SqlStorageValue::Integer(page.into())];
        let statement = "SELECT name, new_at, given FROM tidegate WHERE name > ? ORDER BY name LIMIT ?";
        let seen: Vec<Seen> = self.run(statement, bindings)?.to_array().map_err(failed)?;
        let is_new = |row: &&Seen| row.new_at <= now as f64 && (row.given != 0) == given;
        forgotten.extend(seen.iter().filter(is_new).map(|row| row.name.clone()));
        if !forgotten.is_empty() {
            let list = serde_json::to_string(forgotten).expect("texts are JSON");
            self.run("DELETE FROM tidegate WHERE name IN (SELECT value FROM json_each(?))", vec![list.into()])?;
        }
        Ok(seen.last().filter(|_| seen.len() == page as usize).map(|row| row.name.clone()))
    }
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
