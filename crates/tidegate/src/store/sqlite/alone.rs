//! One operation with nobody else in line.

use rusqlite::{Connection, params};
use tidegate_core::Timestamp;

use super::batch::stored;
use super::job::{Answer, Step, Work, when};
use super::row::{Change, Row};
use super::schema::Table;

/// Decides without a transaction, where that is enough: nothing has to be written, or only the value of a row that is the
/// same as when it was read. That is two statements in the place of four, and a denial keeps nobody from the file.
///
/// None when it is not enough, and when anything is wrong: nothing was done then, and the transaction will say what it is.
pub(super) fn decide(connection: &Connection, table: &Table, work: &Work, now: Timestamp) -> Option<Answer> {
    let Work::One(Step { name, quota, op, at }) = work else { return None };
    if !connection.is_autocommit() {
        return None;
    }
    let found = stored(connection, table, name).ok()?;
    let mut row = Row::read(found.clone(), quota);
    let outcome = row.step(quota, *op, when(*at, now)).ok()?;
    match (row.into_change(), found) {
        (Change::Nothing, _) => {}
        // Whoever has changed it and changed it back has left the same to decide about.
        (Change::Value(value), Some(found)) => {
            let mut write = connection.prepare_cached(&table.write_if_same).ok()?;
            if write.execute(params![name, value, found.value]).ok()? != 1 {
                return None;
            }
        }
        _ => return None,
    }
    Some(Answer::One(outcome.decision))
}
