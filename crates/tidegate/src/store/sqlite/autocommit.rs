//! Decisions without a transaction, for a single waiting job.

use rusqlite::{Connection, params};
use tidegate_core::{Decision, Timestamp};

use super::job::{Command, Job, JobOutput, Step};
use super::row::{LoadedRow, RowChange, StepTime, StoredRow};
use super::schema::TableSchema;

/// Decides a job without a transaction when it writes one row or none. That takes two statements instead of four, and a
/// denial does not lock the file. Returns the output and the number of added rows.
///
/// Returns `None` when the job needs a transaction, and on any error. Nothing was written then, and the transaction that
/// follows reports the error.
pub(super) fn try_decide(
    connection: &Connection,
    table: &TableSchema,
    job: &Job,
    now: Timestamp,
) -> Option<(JobOutput, usize)> {
    match &job.command {
        Command::Step(step) if connection.is_autocommit() => {
            let (decision, added) = step_row(connection, table, step, now, || job.is_wanted())?;
            Some((JobOutput::Decision(decision), added))
        }
        _ => None,
    }
}

/// Applies one operation to its row, unless `is_wanted` returns false after the decision.
fn step_row(
    connection: &Connection,
    table: &TableSchema,
    step: &Step,
    now: Timestamp,
    is_wanted: impl FnOnce() -> bool,
) -> Option<(Decision, usize)> {
    let Step { row_key, quota, op, test_time } = step;
    // The read of an existing row stays open until the write, because SQLite then writes only on top of the read
    // version.
    let mut select = connection.prepare_cached(&table.select).ok()?;
    let mut rows = select.query([row_key]).ok()?;
    let stored = rows.next().ok()?.map(StoredRow::from_sql).transpose().ok()?;
    let mut row = LoadedRow::new(stored, quota);
    let outcome = row.step(quota, *op, StepTime::new(*test_time, now)).ok()?;
    // A call that was given up meanwhile spends nothing.
    if !is_wanted() {
        return None;
    }
    let added = write(connection, table, row_key, row.into_change())?;
    Some((outcome.decision, added))
}

/// Writes the change of a row that is still being read, or that did not exist, and returns the number of added rows.
/// Returns `None` when another connection has changed the row, and when the change needs a transaction. Nothing was
/// written then.
fn write(connection: &Connection, table: &TableSchema, row_key: &[u8], change: RowChange) -> Option<usize> {
    let prepare = |statement: &str| connection.prepare_cached(statement).ok();
    let signed = |expires_at: Option<u64>| expires_at.map(|micros| micros as i64);
    let (written, added) = match change {
        RowChange::Unchanged => return Some(0),
        RowChange::UpdateValue(value) => (prepare(&table.write_value)?.execute(params![row_key, value]).ok()?, 0),
        RowChange::Upsert { value, expires_at, is_new: false } => {
            (prepare(&table.write)?.execute(params![row_key, value, signed(expires_at)]).ok()?, 0)
        }
        RowChange::Upsert { value, expires_at, is_new: true } => {
            (prepare(&table.write_if_new)?.execute(params![row_key, value, signed(expires_at)]).ok()?, 1)
        }
        RowChange::Delete => return None,
    };
    (written == 1).then_some(added)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_core::{Cost, Op, Quota, minutes};

    use super::*;
    use crate::store::sqlite::Synchronous;
    use crate::store::sqlite::file::{DatabaseFile, temporary_path};
    use crate::store::table::TableName;

    /// Returns the remaining units after a decision and the number of added rows. Calls `meanwhile` between reading and
    /// writing the row.
    fn decide(
        connection: &Connection,
        table: &TableSchema,
        quota: Quota,
        meanwhile: impl FnOnce(),
    ) -> Option<(u64, usize)> {
        let step = Step { row_key: b"k".to_vec(), quota, op: Op::Limit(Cost::ONE), test_time: None };
        let now = Timestamp::from_millis(1_700_000_000_000);
        let is_wanted = || {
            meanwhile();
            true
        };
        let (decision, added) = step_row(connection, table, &step, now, is_wanted)?;
        Some((decision.remaining(), added))
    }

    /// Between reading and writing, another process decides about the row.
    #[test]
    fn row_changed_by_another_connection_is_not_overwritten() {
        let (table, path) = (TableSchema::new(TableName::default()), temporary_path());
        let file = DatabaseFile::new(&path, Duration::ZERO).unwrap();
        let [ours, other] = [(); 2].map(|()| file.writer(Synchronous::Normal, &table).unwrap());
        let [quota, wider] = [1, 60].map(|window| Quota::fixed_window(100, minutes(window)).unwrap());
        // A new row, one whose value changes, and one that is kept for longer, too.
        for (our_quota, other_result) in [(quota, (99, 1)), (quota, (98, 0)), (wider, (97, 0))] {
            let meanwhile = || assert_eq!(decide(&other, &table, quota, || ()), Some(other_result));
            assert_eq!(decide(&ours, &table, our_quota, meanwhile), None);
        }
        // Without a concurrent write, the decision succeeds, and nothing was lost.
        assert_eq!(decide(&ours, &table, quota, || ()), Some((96, 0)));
        assert_eq!(decide(&ours, &table, wider, || ()).map(|(_, added)| added), Some(0));
        drop((ours, other));
        std::fs::remove_file(path).unwrap();
    }
}
