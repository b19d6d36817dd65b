//! The rows of one transaction: each is read once, stepped in memory, and written once.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;

use rusqlite::{Connection, Error, OptionalExtension, params};
use tidegate_core::{Decision, Entry, JointDecision, Op, Quota, State, StoreError, step_all};

use super::row::{Change, Row, Stored, When};
use super::schema::Table;

/// What one operation came to. An error of it is about its row; an error of SQLite is about the whole transaction, and
/// stands around this.
pub(super) type Decided<T> = Result<Result<T, StoreError>, Error>;

/// What is stored about a row.
fn stored(connection: &Connection, table: &Table, name: &[u8]) -> Result<Option<Stored>, Error> {
    connection.prepare_cached(&table.select)?.query_row([name], Stored::of).optional()
}

/// The rows of one transaction.
pub(super) struct Batch<'a> {
    connection: &'a Connection,
    table: &'a Table,
    rows: HashMap<&'a [u8], Row>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(connection: &'a Connection, table: &'a Table) -> Self {
        Batch { connection, table, rows: HashMap::new() }
    }

    /// One operation on one row.
    pub(super) fn step(&mut self, name: &'a [u8], quota: &Quota, op: Op, when: When) -> Decided<Decision> {
        Ok(self.row(name, quota)?.step(quota, op, when).map(|outcome| outcome.decision))
    }

    /// All entries or nothing: those about state 0 are about the row that is named first, and so on.
    pub(super) fn all(&mut self, names: &'a [Vec<u8>], entries: &[Entry<'_>], when: When) -> Decided<JointDecision> {
        let quota = |state| entries.iter().find(|entry| entry.state == state).expect("a row was asked about").quota;
        let mut states: Vec<State> = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            match self.row(name, quota(index))?.state_under(quota(index), when) {
                Ok(state) => states.push(state),
                Err(error) => return Ok(Err(error)),
            }
        }
        let all = step_all(entries, &mut states, when.at);
        if all.allowed() {
            for (index, (name, state)) in names.iter().zip(states).enumerate() {
                self.row(name, quota(index))?.put(quota(index), state, when);
            }
        }
        Ok(Ok(all))
    }

    fn row(&mut self, name: &'a [u8], quota: &Quota) -> Result<&mut Row, Error> {
        match self.rows.entry(name) {
            Place::Occupied(known) => Ok(known.into_mut()),
            Place::Vacant(place) => Ok(place.insert(Row::read(stored(self.connection, self.table, name)?, quota))),
        }
    }

    /// Writes every row that has changed, and says how many there are now that were not there before.
    pub(super) fn write(self) -> Result<usize, Error> {
        let mut added = 0;
        for (name, row) in self.rows {
            match row.into_change() {
                Change::Nothing => {}
                Change::Delete => {
                    self.connection.prepare_cached(&self.table.delete)?.execute([name])?;
                }
                Change::Value(value) => {
                    self.connection.prepare_cached(&self.table.write_value)?.execute(params![name, value])?;
                }
                Change::JointDecision { value, until, is_new } => {
                    let until = until.map(|until| until as i64);
                    self.connection.prepare_cached(&self.table.write)?.execute(params![name, value, until])?;
                    added += usize::from(is_new);
                }
            }
        }
        Ok(added)
    }
}
