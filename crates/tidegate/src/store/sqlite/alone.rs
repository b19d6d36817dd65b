//! One operation with nobody else in line.

use rusqlite::{Connection, params};
use tidegate_core::Timestamp;

use super::batch::stored;
use super::job::{Answer, Job, Step, Work, when};
use super::row::{Change, Row, Stored};
use super::schema::Table;

/// Decides without a transaction, where that is enough: nothing has to be written, or one row that is the same as when it
/// was read. That is two statements in the place of four, and a denial keeps nobody from the file. With the answer comes
/// how many rows were added.
///
/// None when it is not enough, and when anything is wrong: nothing was done then, and the transaction will say what it is.
pub(super) fn decide(connection: &Connection, table: &Table, job: &Job, now: Timestamp) -> Option<(Answer, usize)> {
    let Work::One(Step { name, quota, op, at }) = &job.work else { return None };
    if !connection.is_autocommit() {
        return None;
    }
    let found = stored(connection, table, name).ok()?;
    let mut row = Row::read(found.clone(), quota);
    let outcome = row.step(quota, *op, when(*at, now)).ok()?;
    // A call that was given up meanwhile spends nothing.
    if !job.is_wanted() {
        return None;
    }
    let added = write(connection, table, name, row.into_change(), found)?;
    Some((Answer::One(outcome.decision), added))
}

/// Writes what has changed about the row that was found, and says how many rows were added. None when it is another one
/// by now, and nothing was written. Whoever has changed it and changed it back has left the same to decide about.
fn write(connection: &Connection, table: &Table, name: &[u8], change: Change, found: Option<Stored>) -> Option<usize> {
    let prepare = |statement: &str| connection.prepare_cached(statement).ok();
    let (written, added) = match (change, found) {
        (Change::Nothing, _) => return Some(0),
        (Change::Value(value), Some(found)) => {
            (prepare(&table.write_if_same)?.execute(params![name, value, found.value]).ok()?, 0)
        }
        (Change::All { value, until, .. }, Some(found)) => {
            let until = until.map(|until| until as i64);
            (prepare(&table.move_if_same)?.execute(params![name, value, found.value, until]).ok()?, 0)
        }
        (Change::All { value, until, .. }, None) => {
            let until = until.map(|until| until as i64);
            (prepare(&table.write_if_new)?.execute(params![name, value, until]).ok()?, 1)
        }
        (Change::Delete | Change::Value(_), _) => return None,
    };
    (written == 1).then_some(added)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::table::TableName;

    /// Between reading and writing, another process has the row.
    #[test]
    fn a_row_that_somebody_else_has_written_meanwhile_is_left_alone() {
        let (table, connection) = (Table::new(TableName::default()), Connection::open_in_memory().unwrap());
        table.create(&connection).unwrap();
        let now = || stored(&connection, &table, b"k").unwrap().map(|stored| (stored.value, stored.until));
        let all = |value: &[u8]| Change::All { value: value.to_vec(), until: Some(7), is_new: true };
        let write = |change, found| write(&connection, &table, b"k", change, found);

        assert_eq!(write(all(b"one"), None), Some(1));
        assert_eq!(write(all(b"two"), None), None, "it is there already");
        assert_eq!(now(), Some((b"one".to_vec(), Some(7))));

        let stale = || Some(Stored { value: b"old".to_vec(), until: Some(7) });
        assert_eq!(write(Change::Value(b"two".to_vec()), stale()), None);
        assert_eq!(write(all(b"two"), stale()), None);
        assert_eq!(now(), Some((b"one".to_vec(), Some(7))));

        let fresh = || Some(Stored { value: b"one".to_vec(), until: Some(7) });
        assert_eq!(write(Change::Value(b"two".to_vec()), fresh()), Some(0));
        assert_eq!(write(Change::Value(b"two".to_vec()), fresh()), None);
        assert_eq!(now(), Some((b"two".to_vec(), Some(7))));
        assert_eq!(write(Change::Delete, fresh()), None, "that is the transaction's");
    }
}
