//! The rows of one transaction. Each is read once, changed in memory, and written once.

use std::collections::{HashMap, hash_map};

use rusqlite::{Connection, Error, OptionalExtension, params};
use tidegate_core::{Decision, JointDecision, JointEntry, Op, Quota, State, StoreError, step_all};

use super::row::{LoadedRow, RowChange, StepTime, StoredRow};
use super::schema::TableSchema;

/// The result of an operation of a batch. The inner error is about one row. The outer error of SQLite is about the whole
/// transaction.
pub(super) type BatchResult<T> = Result<Result<T, StoreError>, Error>;

fn read_row(connection: &Connection, table: &TableSchema, row_key: &[u8]) -> Result<Option<StoredRow>, Error> {
    connection.prepare_cached(&table.select)?.query_row([row_key], StoredRow::from_sql).optional()
}

/// The rows of one transaction.
pub(super) struct Batch<'a> {
    connection: &'a Connection,
    table: &'a TableSchema,
    rows: HashMap<&'a [u8], LoadedRow>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(connection: &'a Connection, table: &'a TableSchema) -> Self {
        Batch { connection, table, rows: HashMap::new() }
    }

    /// Applies one operation to one row.
    pub(super) fn step(&mut self, row_key: &'a [u8], quota: &Quota, op: Op, time: StepTime) -> BatchResult<Decision> {
        Ok(self.row(row_key, quota)?.step(quota, op, time).map(|outcome| outcome.decision))
    }

    /// Applies all entries or none. The state of an entry is the index of its row in `row_keys`.
    pub(super) fn step_all(
        &mut self,
        row_keys: &'a [Vec<u8>],
        entries: &[JointEntry<'_>],
        time: StepTime,
    ) -> BatchResult<JointDecision> {
        let quota = |state| entries.iter().find(|entry| entry.state == state).expect("every row has an entry").quota;
        let mut states: Vec<State> = Vec::with_capacity(row_keys.len());
        for (index, row_key) in row_keys.iter().enumerate() {
            match self.row(row_key, quota(index))?.state_under(quota(index), time) {
                Ok(state) => states.push(state),
                Err(error) => return Ok(Err(error)),
            }
        }
        let joint = step_all(entries, &mut states, time.now);
        if joint.allowed() {
            for (index, (row_key, state)) in row_keys.iter().zip(states).enumerate() {
                self.row(row_key, quota(index))?.set_state(quota(index), state, time);
            }
        }
        Ok(Ok(joint))
    }

    fn row(&mut self, row_key: &'a [u8], quota: &Quota) -> Result<&mut LoadedRow, Error> {
        match self.rows.entry(row_key) {
            hash_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            hash_map::Entry::Vacant(entry) => {
                let stored = read_row(self.connection, self.table, row_key)?;
                Ok(entry.insert(LoadedRow::new(stored, quota)))
            }
        }
    }

    /// Writes the rows that have changed, and returns the number of added rows.
    pub(super) fn write(self) -> Result<usize, Error> {
        let mut added = 0;
        for (row_key, row) in self.rows {
            match row.into_change() {
                RowChange::Unchanged => {}
                RowChange::Delete => {
                    self.connection.prepare_cached(&self.table.delete)?.execute([row_key])?;
                }
                RowChange::UpdateValue(value) => {
                    self.connection.prepare_cached(&self.table.write_value)?.execute(params![row_key, value])?;
                }
                RowChange::Upsert { value, expires_at, is_new } => {
                    let expires_at = expires_at.map(|micros| micros as i64);
                    self.connection.prepare_cached(&self.table.write)?.execute(params![row_key, value, expires_at])?;
                    added += usize::from(is_new);
                }
            }
        }
        Ok(added)
    }
}
