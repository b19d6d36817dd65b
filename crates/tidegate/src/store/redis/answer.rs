//! What a script answers.

use redis::{FromRedisValue, Value};
use tidegate_core::{StoreError, StoreErrorKind, Timestamp};

use super::error::store_error;

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// Nothing was written.
    Nothing,
    /// The new state was written.
    Written,
    /// Nothing: the state was written under another quota.
    Foreign,
}

/// When, what became of it, and what was stored before, if anything. An empty string counts as nothing: it is not ours,
/// and nothing is lost with it.
pub(super) struct Answer {
    pub(super) now: Timestamp,
    pub(super) done: Done,
    pub(super) value: Option<Vec<u8>>,
}

/// The answer about one key: the time in eight bytes, what became of it in one, and the stored value.
pub(super) fn one(answer: Value) -> Result<Answer, StoreError> {
    let bytes: Vec<u8> = read(answer)?;
    let (now, done, value) = parse(&bytes)?;
    let value = (!value.is_empty()).then(|| value.to_vec());
    Ok(Answer { now, done, value })
}

/// The answer about several: when, what became of them, and what was stored under each key.
pub(super) struct Answers {
    pub(super) now: Timestamp,
    pub(super) done: Done,
    pub(super) values: Vec<Option<Vec<u8>>>,
}

/// The answer about several keys: the time and what became of them in one value, then the stored ones.
pub(super) fn all(answer: Value) -> Result<Answers, StoreError> {
    let values: Vec<Vec<u8>> = read(answer)?;
    let (head, stored) = values.split_first().ok_or_else(unexpected)?;
    let (now, done, _) = parse(head)?;
    let values = stored.iter().map(|value| (!value.is_empty()).then(|| value.clone())).collect();
    Ok(Answers { now, done, values })
}

fn parse(bytes: &[u8]) -> Result<(Timestamp, Done, &[u8]), StoreError> {
    let (now, rest) = bytes.split_first_chunk().ok_or_else(unexpected)?;
    let (done, value) = rest.split_first().ok_or_else(unexpected)?;
    let done = match done {
        0 => Done::Nothing,
        1 => Done::Written,
        2 => Done::Foreign,
        _ => return Err(unexpected()),
    };
    Ok((Timestamp::from_micros(f64::from_le_bytes(*now) as u64), done, value))
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    T::from_redis_value(value).map_err(|error| store_error(error.into()))
}

fn unexpected() -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, "redis: the script answered something else than it does")
}
