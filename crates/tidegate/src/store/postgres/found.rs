//! What the database answers.

use std::error::Error;

use tidegate_core::{Quota, State, StoreError, StoreErrorKind, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::arguments::{Arguments, signed};
use crate::store::stored::{self, corrupt, read_quota};

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// Nothing was written.
    Nothing,
    /// The new state was written.
    Written,
    /// Nothing: the state was written under another quota.
    Foreign,
    /// The new state was written in one statement, and is what the answer has.
    AtOnce,
}

impl Done {
    pub(super) fn new(number: i16) -> Result<Self, StoreError> {
        match number {
            0 => Ok(Done::Nothing),
            1 => Ok(Done::Written),
            2 => Ok(Done::Foreign),
            3 => Ok(Done::AtOnce),
            _ => Err(corrupt("the function's answer is not ours")),
        }
    }
}

/// What was found under a key, and when.
pub(super) struct Found {
    pub(super) now: Timestamp,
    /// None when it is the one that was asked for.
    quota: Option<Vec<u8>>,
    /// None when the key is as good as new.
    state: Option<Vec<i64>>,
}

impl Found {
    /// The answer to a look: the time, the quota and the state.
    pub(super) fn look(row: &Row) -> Result<Self, StoreError> {
        Ok(Found { now: timestamp(read(row, 0)?)?, quota: read(row, 1)?, state: read(row, 2)? })
    }

    /// The answer to a step: the time, what became of it, another quota and the state.
    pub(super) fn step(row: &Row, asked: &Arguments) -> Result<(Self, Done), StoreError> {
        let Answer(now, done, quota, mut state): Answer<_, Option<Vec<i64>>> = read(row, 0)?;
        let done = Done::new(done)?;
        if let (Done::AtOnce, Some(state)) = (done, &mut state) {
            asked.give_back(state);
        }
        Ok((Found { now: timestamp(now)?, quota, state }, done))
    }

    /// One of several answers.
    pub(super) fn among(now: Timestamp, quota: Option<Vec<u8>>, state: Option<&str>) -> Result<Self, StoreError> {
        Ok(Found { now, quota, state: state.map(from_text).transpose()? })
    }

    /// What was found, as a state of `quota` at the time `now`.
    pub(super) fn state(&self, quota: &Quota, now: Timestamp) -> Result<State, StoreError> {
        let Some(numbers) = &self.state else { return Ok(State::New) };
        let whole = |number: &i64| u64::try_from(*number).map_err(|_| corrupt("a number in it is below 0"));
        let numbers = numbers.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        match &self.quota {
            None => stored::state(quota, &numbers),
            Some(from) => {
                let from = read_quota(from)?;
                Ok(stored::state(&from, &numbers)?.rebase(&from, quota, now))
            }
        }
    }

    /// How this, which was written under another quota, becomes `state`.
    pub(super) fn carried(self, state: &State) -> Carried<Vec<i64>> {
        let instead = (*state != State::New).then(|| stored::numbers(state).into_iter().map(signed).collect());
        Carried { quota: self.quota, state: self.state, instead }
    }
}

/// What tells a function to step from another state if it still finds the one it found before.
#[derive(Clone, Default)]
pub(super) struct Carried<S> {
    pub(super) quota: Option<Vec<u8>>,
    pub(super) state: Option<S>,
    pub(super) instead: Option<S>,
}

/// What a function answers: a record of four, in one column. It is cheaper for the database than four columns.
pub(super) struct Answer<Q, S>(pub(super) i64, pub(super) i16, pub(super) Q, pub(super) S);

impl<'a, Q: FromSql<'a>, S: FromSql<'a>> FromSql<'a> for Answer<Q, S> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let mut fields = Fields(raw.get(4..).ok_or("a record without a length")?);
        Ok(Answer(fields.next()?, fields.next()?, fields.next()?, fields.next()?))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::RECORD
    }
}

/// The fields of a record that are still to be read: each its type, its length and its bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next<T: FromSql<'a>>(&mut self) -> Result<T, Box<dyn Error + Sync + Send>> {
        let (of, rest) = self.0.split_first_chunk().ok_or("a record that is cut off")?;
        let (length, rest) = rest.split_first_chunk().ok_or("a record that is cut off")?;
        let of = Type::from_oid(u32::from_be_bytes(*of)).filter(T::accepts).ok_or("a field of another type")?;
        // Below 0 there is none.
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.0 = rest;
            return T::from_sql_null(&of);
        };
        let (bytes, rest) = rest.split_at_checked(length).ok_or("a record that is cut off")?;
        self.0 = rest;
        T::from_sql(&of, bytes)
    }
}

/// A column, when it is of the type it should be.
pub(super) fn read<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    let not_ours = "postgres: the answer is not of our function, or the row not of our shape";
    row.try_get(column).map_err(|error| StoreError::caused_by(StoreErrorKind::Corrupt, not_ours, error))
}

/// A time in microseconds.
pub(super) fn timestamp(micros: i64) -> Result<Timestamp, StoreError> {
    u64::try_from(micros).map(Timestamp::from_micros).map_err(|_| corrupt("the time is before 1970"))
}

/// An array of numbers as Postgres writes it.
fn from_text(text: &str) -> Result<Vec<i64>, StoreError> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let inner = inner.ok_or_else(|| corrupt("it is not an array"))?;
    let numbers = inner.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().map_err(|_| corrupt("a number in it is none"))).collect()
}

/// An array of numbers as Postgres reads it.
pub(super) fn to_text(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}
