//! One operation with nobody else in line.

use rusqlite::{Connection, params};
use tidegate_core::Timestamp;

use super::job::{Answer, Job, Step, Work, when};
use super::row::{Change, Row, Stored};
use super::schema::Table;

/// Decides without a transaction, where that is enough: nothing has to be written, or one row. That is two statements in the
/// place of four, and a denial keeps nobody from the file. With the answer comes how many rows were added.
///
/// None when it is not enough, and when anything is wrong: nothing was done then, and the transaction will say what it is.
pub(super) fn decide(connection: &Connection, table: &Table, job: &Job, now: Timestamp) -> Option<(Answer, usize)> {
    let Work::One(Step { name, quota, op, at }) = &job.work else { return None };
    if !connection.is_autocommit() {
        return None;
    }
    // A row that was found is being read until it is written: SQLite writes only on top of what was read.
    let mut select = connection.prepare_cached(&table.select).ok()?;
    let mut rows = select.query([name]).ok()?;
    let found = rows.next().ok()?.map(Stored::of).transpose().ok()?;
    let mut row = Row::read(found, quota);
    let outcome = row.step(quota, *op, when(*at, now)).ok()?;
    // A call that was given up meanwhile spends nothing.
    if !job.is_wanted() {
        return None;
    }
    let added = write(connection, table, name, row.into_change())?;
    Some((Answer::One(outcome.decision), added))
}

/// Writes what has changed about a row that is being read, or that was not there, and says how many rows were added. None
/// when somebody else has written meanwhile, and then nothing was.
fn write(connection: &Connection, table: &Table, name: &[u8], change: Change) -> Option<usize> {
    let prepare = |statement: &str| connection.prepare_cached(statement).ok();
    let until = |until: Option<u64>| until.map(|until| until as i64);
    let (written, added) = match change {
        Change::Nothing => return Some(0),
        Change::Value(value) => (prepare(&table.write_value)?.execute(params![name, value]).ok()?, 0),
        Change::All { value, until: at, is_new: false } => {
            (prepare(&table.write)?.execute(params![name, value, until(at)]).ok()?, 0)
        }
        Change::All { value, until: at, is_new: true } => {
            (prepare(&table.write_if_new)?.execute(params![name, value, until(at)]).ok()?, 1)
        }
        Change::Delete => return None,
    };
    (written == 1).then_some(added)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::sqlite::Synchronous;
    use crate::store::sqlite::file::{File, temporary};
    use crate::store::table::TableName;

    /// Between reading and writing, another process has the row.
    #[test]
    fn a_row_that_somebody_else_has_written_meanwhile_is_left_alone() {
        let (table, path) = (Table::new(TableName::default()), temporary());
        let file = File::new(&path, Duration::ZERO).unwrap();
        let [ours, other] = [(); 2].map(|()| file.writer(Synchronous::Normal, &table).unwrap());
        let new = |value: &[u8]| Change::All { value: value.to_vec(), until: Some(7), is_new: true };
        let moved = |value: &[u8]| Change::All { value: value.to_vec(), until: Some(8), is_new: false };
        let value = |value: &[u8]| Change::Value(value.to_vec());
        let now = || -> (Vec<u8>, i64) {
            other.query_row(&table.select, [b"k"], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        // Reads the row, lets the other write, and then writes.
        let write_after = |meanwhile: Option<Change>, change| {
            let mut select = ours.prepare_cached(&table.select).unwrap();
            let mut rows = select.query([b"k"]).unwrap();
            rows.next().unwrap();
            if let Some(meanwhile) = meanwhile {
                assert!(write(&other, &table, b"k", meanwhile).is_some());
            }
            write(&ours, &table, b"k", change)
        };

        assert_eq!(write_after(Some(new(b"one")), new(b"two")), None, "it is there by now");
        assert_eq!(now(), (b"one".to_vec(), 7));
        assert_eq!(write_after(Some(value(b"two")), value(b"three")), None);
        assert_eq!(write_after(Some(value(b"three")), moved(b"four")), None);
        assert_eq!(now(), (b"three".to_vec(), 7));

        assert_eq!(write_after(None, value(b"four")), Some(0));
        assert_eq!(now(), (b"four".to_vec(), 7));
        assert_eq!(write_after(None, moved(b"five")), Some(0));
        assert_eq!(now(), (b"five".to_vec(), 8));
        assert_eq!(write_after(None, Change::Delete), None, "that is the transaction's");
        drop((ours, other));
        std::fs::remove_file(path).unwrap();
    }
}
