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

/// Instead of what became of it, among others: nothing, because something is wrong.
const FAILED: u8 = 3;

/// When, what became of it, and what was stored before, if anything. An empty string counts as nothing: it is not ours,
/// and nothing is lost with it.
#[derive(Debug, Clone)]
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

/// The answers about several keys, each on its own: the time in eight bytes; then for each what became of it in one, how
/// long the stored value is in four, and the value. None where it could not be done.
pub(super) fn each(answer: Value, count: usize) -> Result<Vec<Option<Answer>>, StoreError> {
    let bytes: Vec<u8> = read(answer)?;
    let (now, mut rest) = bytes.split_first_chunk().ok_or_else(unexpected)?;
    let now = time(*now);
    let mut answers = Vec::with_capacity(count);
    while let Some((&[done, a, b, c, d], after)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let (value, after) = after.split_at_checked(length).ok_or_else(unexpected)?;
        let value = (!value.is_empty()).then(|| value.to_vec());
        answers.push(if done == FAILED { None } else { Some(Answer { now, done: became(done)?, value }) });
        rest = after;
    }
    if answers.len() == count { Ok(answers) } else { Err(unexpected()) }
}

fn parse(bytes: &[u8]) -> Result<(Timestamp, Done, &[u8]), StoreError> {
    let (now, rest) = bytes.split_first_chunk().ok_or_else(unexpected)?;
    let (done, value) = rest.split_first().ok_or_else(unexpected)?;
    Ok((time(*now), became(*done)?, value))
}

fn time(bytes: [u8; 8]) -> Timestamp {
    Timestamp::from_micros(f64::from_le_bytes(bytes) as u64)
}

fn became(done: u8) -> Result<Done, StoreError> {
    match done {
        0 => Ok(Done::Nothing),
        1 => Ok(Done::Written),
        2 => Ok(Done::Foreign),
        _ => Err(unexpected()),
    }
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    T::from_redis_value(value).map_err(|error| store_error(error.into()))
}

fn unexpected() -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, "redis: the script answered something else than it does")
}
