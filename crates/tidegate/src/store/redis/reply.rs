//! Replies of the scripts, and how they are parsed.

use redis::{FromRedisValue, Value};
use tidegate_core::{StoreError, StoreErrorKind, Timestamp};

use super::error::store_error;

/// The effect that a script reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing was written.
    Unchanged,
    /// The new state was written.
    Written,
    /// Nothing was written: the state belongs to another quota.
    OtherQuota,
}

/// The byte in place of an effect in the reply to a batch: the operation failed, and nothing was written.
const FAILED: u8 = 3;

/// The reply about one key: the time, the effect, and the value that was stored before, if any. An empty string counts
/// as no value: it is not ours, and nothing is lost with it.
#[derive(Debug, Clone)]
pub(super) struct KeyReply {
    pub(super) now: Timestamp,
    pub(super) effect: Effect,
    pub(super) value: Option<Vec<u8>>,
}

/// Parses the reply about one key: the time in eight bytes, the effect in one, and the stored value.
pub(super) fn parse_single(reply: Value) -> Result<KeyReply, StoreError> {
    let bytes: Vec<u8> = convert(reply)?;
    let (now, effect, value) = parse_head(&bytes)?;
    let value = (!value.is_empty()).then(|| value.to_vec());
    Ok(KeyReply { now, effect, value })
}

/// The reply to a joint decision: the time, one effect for all keys, and the value that was stored under each key.
pub(super) struct JointReply {
    pub(super) now: Timestamp,
    pub(super) effect: Effect,
    pub(super) values: Vec<Option<Vec<u8>>>,
}

/// Parses the reply to a joint decision: the time and the effect in one value, then the stored ones.
pub(super) fn parse_joint(reply: Value) -> Result<JointReply, StoreError> {
    let values: Vec<Vec<u8>> = convert(reply)?;
    let (head, stored) = values.split_first().ok_or_else(unexpected_reply)?;
    let (now, effect, _) = parse_head(head)?;
    let values = stored.iter().map(|value| (!value.is_empty()).then(|| value.clone())).collect();
    Ok(JointReply { now, effect, values })
}

/// Parses the reply to a batch of `count` operations: the time in eight bytes; then for each operation the effect in
/// one, the length of the stored value in four, and the value. An operation that failed has no reply.
pub(super) fn parse_batch(reply: Value, count: usize) -> Result<Vec<Option<KeyReply>>, StoreError> {
    let bytes: Vec<u8> = convert(reply)?;
    let (now, mut rest) = bytes.split_first_chunk().ok_or_else(unexpected_reply)?;
    let now = parse_time(*now);
    let mut replies = Vec::with_capacity(count);
    while let Some((&[effect, a, b, c, d], after)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let (value, after) = after.split_at_checked(length).ok_or_else(unexpected_reply)?;
        let value = (!value.is_empty()).then(|| value.to_vec());
        let reply = if effect == FAILED { None } else { Some(KeyReply { now, effect: parse_effect(effect)?, value }) };
        replies.push(reply);
        rest = after;
    }
    if replies.len() == count { Ok(replies) } else { Err(unexpected_reply()) }
}

fn parse_head(bytes: &[u8]) -> Result<(Timestamp, Effect, &[u8]), StoreError> {
    let (now, rest) = bytes.split_first_chunk().ok_or_else(unexpected_reply)?;
    let (effect, value) = rest.split_first().ok_or_else(unexpected_reply)?;
    Ok((parse_time(*now), parse_effect(*effect)?, value))
}

fn parse_time(bytes: [u8; 8]) -> Timestamp {
    Timestamp::from_micros(f64::from_le_bytes(bytes) as u64)
}

fn parse_effect(byte: u8) -> Result<Effect, StoreError> {
    match byte {
        0 => Ok(Effect::Unchanged),
        1 => Ok(Effect::Written),
        2 => Ok(Effect::OtherQuota),
        _ => Err(unexpected_reply()),
    }
}

fn convert<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    T::from_redis_value(value).map_err(|error| store_error(error.into()))
}

fn unexpected_reply() -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, "redis: the script answered something else than it does")
}
