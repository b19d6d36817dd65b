//! One operation with nobody else in line.

use rusqlite::{Connection, params};
use tidegate_core::{Decision, Timestamp};

use super::job::{Answer, Job, Step, Work, when};
use super::row::{Change, Row, Stored};
use super::schema::Table;

/// Decides without a transaction, where that is enough: nothing has to be written, or one row. That is two statements in the
/// place of four, and a denial keeps nobody from the file. With the answer comes how many rows were added.
///
/// None when it is not enough, and when anything is wrong: nothing was done then, and the transaction will say what it is.
pub(super) fn decide(connection: &Connection, table: &Table, job: &Job, now: Timestamp) -> Option<(Answer, usize)> {
    match &job.work {
        Work::One(step) if connection.is_autocommit() => {
            let (decision, added) = one(connection, table, step, now, || job.is_wanted())?;
            Some((Answer::One(decision), added))
        }
        _ => None,
    }
}

/// The same for one operation, which `is_wanted` may stop once it is decided.
fn one(
    connection: &Connection,
    table: &Table,
    step: &Step,
    now: Timestamp,
    is_wanted: impl FnOnce() -> bool,
) -> Option<(Decision, usize)> {
    let Step { name, quota, op, at } = step;
    // A row that was found is being read until it is written: SQLite writes only on top of what was read.
    let mut select = connection.prepare_cached(&table.select).ok()?;
    let mut rows = select.query([name]).ok()?;
    let found = rows.next().ok()?.map(Stored::of).transpose().ok()?;
    let mut row = Row::read(found, quota);
    let outcome = row.step(quota, *op, when(*at, now)).ok()?;
    // A call that was given up meanwhile spends nothing.
    if !is_wanted() {
        return None;
    }
    let added = write(connection, table, name, row.into_change())?;
    Some((outcome.decision, added))
}

/// Writes what has changed about a row that is being read, or that was not there, and says how many rows were added. None
/// when it is not as it was read, and when that takes a transaction: nothing was written then.
fn write(connection: &Connection, table: &Table, name: &[u8], change: Change) -> Option<usize> {
    let prepare = |statement: &str| connection.prepare_cached(statement).ok();
    let until = |until: Option<u64>| until.map(|until| until as i64);
    let (written, added) = match change {
        Change::Nothing => return Some(0),
        Change::Value(value) => (prepare(&table.write_value)?.execute(params![name, value]).ok()?, 0),
        Change::JointDecision { value, until: at, is_new: false } => {
            (prepare(&table.write)?.execute(params![name, value, until(at)]).ok()?, 0)
        }
        Change::JointDecision { value, until: at, is_new: true } => {
            (prepare(&table.write_if_new)?.execute(params![name, value, until(at)]).ok()?, 1)
        }
        Change::Delete => return None,
    };
    (written == 1).then_some(added)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_core::{Cost, Op, Quota, minutes};

    use super::*;
    use crate::store::sqlite::Synchronous;
    use crate::store::sqlite::file::{File, temporary};
    use crate::store::table::TableName;

    /// How many are left after a decision, if it came about, and how many rows it has added.
    fn decide(connection: &Connection, table: &Table, quota: Quota, meanwhile: impl FnOnce()) -> Option<(u64, usize)> {
        let step = Step { name: b"k".to_vec(), quota, op: Op::Limit(Cost::ONE), at: None };
        let now = Timestamp::from_millis(1_700_000_000_000);
        let is_wanted = || {
            meanwhile();
            true
        };
        let (decision, added) = one(connection, table, &step, now, is_wanted)?;
        Some((decision.remaining(), added))
    }

    /// Between reading and writing, another process decides about the row.
    #[test]
    fn a_row_that_somebody_else_has_written_meanwhile_is_left_alone() {
        let (table, path) = (Table::new(TableName::default()), temporary());
        let file = File::new(&path, Duration::ZERO).unwrap();
        let [ours, other] = [(); 2].map(|()| file.writer(Synchronous::Normal, &table).unwrap());
        let [quota, wider] = [1, 60].map(|window| Quota::fixed_window(100, minutes(window)).unwrap());
        // A new row, one whose value changes, and one that is kept for longer, too.
        for (ours_asks, others) in [(quota, (99, 1)), (quota, (98, 0)), (wider, (97, 0))] {
            let meanwhile = || assert_eq!(decide(&other, &table, quota, || ()), Some(others));
            assert_eq!(decide(&ours, &table, ours_asks, meanwhile), None);
        }
        // Nobody else, and nothing was lost.
        assert_eq!(decide(&ours, &table, quota, || ()), Some((96, 0)));
        assert_eq!(decide(&ours, &table, wider, || ()).map(|(_, added)| added), Some(0));
        drop((ours, other));
        std::fs::remove_file(path).unwrap();
    }
}
