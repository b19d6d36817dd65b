//! Replies of the database, and how they are parsed.

use std::error::Error;

use tidegate_core::{Quota, State, StoreError, StoreErrorKind, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::arguments::{StepArguments, to_signed};
use crate::store::codec::{self, corrupt, decode_quota};

/// The effect that a function reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing was written.
    Unchanged,
    /// The new state was written.
    Written,
    /// Nothing was written: the state belongs to another quota.
    OtherQuota,
    /// The new state was written by the shortcut of one statement. The reply has the new state instead of the old one.
    WrittenByShortcut,
}

impl Effect {
    pub(super) fn from_number(number: i16) -> Result<Self, StoreError> {
        match number {
            0 => Ok(Effect::Unchanged),
            1 => Ok(Effect::Written),
            2 => Ok(Effect::OtherQuota),
            3 => Ok(Effect::WrittenByShortcut),
            _ => Err(corrupt("the function's answer is not ours")),
        }
    }
}

/// The row of a key at one time.
pub(super) struct RowSnapshot {
    pub(super) now: Timestamp,
    /// `None` when it is the quota of the request.
    quota: Option<Vec<u8>>,
    /// `None` when the key is as good as new.
    state: Option<Vec<i64>>,
}

impl RowSnapshot {
    /// Parses the reply to a check: the time, the quota and the state.
    pub(super) fn parse_check(row: &Row) -> Result<Self, StoreError> {
        Ok(RowSnapshot { now: timestamp(column(row, 0)?)?, quota: column(row, 1)?, state: column(row, 2)? })
    }

    /// Parses the reply to a step: the time, the effect, the quota if it is another one, and the state.
    pub(super) fn parse_step(row: &Row, arguments: &StepArguments) -> Result<(Self, Effect), StoreError> {
        let ReplyRecord(now, effect, quota, mut state): ReplyRecord<_, Option<Vec<i64>>> = column(row, 0)?;
        let effect = Effect::from_number(effect)?;
        if let (Effect::WrittenByShortcut, Some(state)) = (effect, &mut state) {
            arguments.undo_shortcut(state);
        }
        Ok((RowSnapshot { now: timestamp(now)?, quota, state }, effect))
    }

    /// Parses the row of one key in the reply to a joint decision.
    pub(super) fn parse_joint(now: Timestamp, quota: Option<Vec<u8>>, state: Option<&str>) -> Result<Self, StoreError> {
        Ok(RowSnapshot { now, quota, state: state.map(parse_array).transpose()? })
    }

    /// Returns the state, rebased to `quota` at the time `now`.
    pub(super) fn state_under(&self, quota: &Quota, now: Timestamp) -> Result<State, StoreError> {
        let Some(numbers) = &self.state else { return Ok(State::New) };
        let unsigned = |number: &i64| u64::try_from(*number).map_err(|_| corrupt("a number in it is below 0"));
        let numbers = numbers.iter().map(unsigned).collect::<Result<Vec<_>, _>>()?;
        match &self.quota {
            None => codec::state_from_numbers(quota, &numbers),
            Some(other) => {
                let other = decode_quota(other)?;
                Ok(codec::state_from_numbers(&other, &numbers)?.rebase(&other, quota, now))
            }
        }
    }

    /// Replaces this row, which was written under another quota, by the rebased `state`.
    pub(super) fn into_replacement(self, state: &State) -> Replacement<Vec<i64>> {
        let state = (*state != State::New).then(|| codec::state_to_numbers(state).into_iter().map(to_signed).collect());
        Replacement { expected_quota: self.quota, expected_state: self.state, state }
    }
}

/// A state to step from in place of the stored one, if the stored one is still the expected one.
#[derive(Clone, Default)]
pub(super) struct Replacement<S> {
    pub(super) expected_quota: Option<Vec<u8>>,
    pub(super) expected_state: Option<S>,
    pub(super) state: Option<S>,
}

/// The record that a function returns: four fields in one column, which is cheaper for the database than four
/// columns.
pub(super) struct ReplyRecord<Q, S>(pub(super) i64, pub(super) i16, pub(super) Q, pub(super) S);

impl<'a, Q: FromSql<'a>, S: FromSql<'a>> FromSql<'a> for ReplyRecord<Q, S> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let mut fields = RecordFields(raw.get(4..).ok_or("a record without a length")?);
        Ok(ReplyRecord(fields.next()?, fields.next()?, fields.next()?, fields.next()?))
    }

    fn accepts(column_type: &Type) -> bool {
        *column_type == Type::RECORD
    }
}

/// The unread fields of a record: for each its type, its length and its bytes.
struct RecordFields<'a>(&'a [u8]);

impl<'a> RecordFields<'a> {
    fn next<T: FromSql<'a>>(&mut self) -> Result<T, Box<dyn Error + Sync + Send>> {
        let (type_oid, rest) = self.0.split_first_chunk().ok_or("a record that is cut off")?;
        let (length, rest) = rest.split_first_chunk().ok_or("a record that is cut off")?;
        let field_type =
            Type::from_oid(u32::from_be_bytes(*type_oid)).filter(T::accepts).ok_or("a field of another type")?;
        // A length below 0 means null.
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.0 = rest;
            return T::from_sql_null(&field_type);
        };
        let (bytes, rest) = rest.split_at_checked(length).ok_or("a record that is cut off")?;
        self.0 = rest;
        T::from_sql(&field_type, bytes)
    }
}

/// Returns a column of a row, or an error when it has another type.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    let not_ours = "postgres: the answer is not of our function, or the row not of our shape";
    row.try_get(index).map_err(|error| StoreError::caused_by(StoreErrorKind::Corrupt, not_ours, error))
}

/// Converts a time in microseconds.
pub(super) fn timestamp(micros: i64) -> Result<Timestamp, StoreError> {
    u64::try_from(micros).map(Timestamp::from_micros).map_err(|_| corrupt("the time is before 1970"))
}

/// Parses an array of numbers in the text format of Postgres.
fn parse_array(text: &str) -> Result<Vec<i64>, StoreError> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let inner = inner.ok_or_else(|| corrupt("it is not an array"))?;
    let numbers = inner.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().map_err(|_| corrupt("a number in it is none"))).collect()
}

/// Formats an array of numbers in the text format of Postgres.
pub(super) fn format_array(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}
