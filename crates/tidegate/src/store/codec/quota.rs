//! The bytes of a quota, stored in full beside each state. A caller with another quota can rebase the state with them.

use std::time::Duration;

use tidegate_core::{Algorithm, MAX_COUNT, Quota, QuotaError, StoreError, StoreErrorKind};

use super::{corrupt, micros};

/// The format's version, in the high half of the first byte. The low half is the algorithm.
const VERSION: u8 = 1 << 4;

/// Encodes a quota as the bytes that are stored beside a state. The last byte is their number, so no encoding is a
/// suffix of another.
pub(crate) fn encode_quota(quota: &Quota) -> Vec<u8> {
    let parts = quota.parts();
    let mut bytes = Vec::with_capacity(24);
    bytes.push(VERSION | parts.algorithm as u8);
    let debt = parts.max_debt.map_or(0, |debt| u64::from(debt) + 1);
    let (period, start) = (micros(parts.period), micros(parts.start));
    for number in [parts.rate.into(), period, parts.capacity.into(), start, parts.buckets.into(), debt] {
        // One more, so that no byte is 0: such bytes can be typed and passed to any program.
        push_number(&mut bytes, number + 1);
    }
    bytes.push(bytes.len() as u8 + 1);
    bytes
}

/// Splits a stored value into the bytes of its state and its quota, which comes last.
#[cfg(any(feature = "redis", feature = "sqlite", feature = "stored"))]
pub(crate) fn split_value(value: &[u8]) -> Result<(&[u8], Quota), StoreError> {
    let (last, _) = value.split_last().ok_or_else(|| corrupt("it is empty"))?;
    let middle = value.len().checked_sub(usize::from(*last)).ok_or_else(|| corrupt("it is cut off"))?;
    let (state, quota) = value.split_at(middle);
    Ok((state, decode_quota(quota)?))
}

/// Decodes a quota.
pub(crate) fn decode_quota(bytes: &[u8]) -> Result<Quota, StoreError> {
    let Some((first, mut bytes)) = bytes.split_first() else { return Err(corrupt("it has no quota")) };
    let algorithm = Algorithm::ALL.into_iter().find(|algorithm| VERSION | *algorithm as u8 == *first);
    let Some(algorithm) = algorithm else { return Err(corrupt("it does not begin like a state")) };
    let mut numbers = [0; 6];
    for number in &mut numbers {
        let (read, rest) = read_number(bytes).ok_or_else(|| corrupt("it is cut off"))?;
        (*number, bytes) = (read.checked_sub(1).ok_or_else(|| corrupt("a number in its quota is missing"))?, rest);
    }
    build(algorithm, numbers).map_err(|error| {
        StoreError::caused_by(StoreErrorKind::Corrupt, "a value under our key names a quota that cannot be", error)
    })
}

fn build(algorithm: Algorithm, [rate, period, capacity, start, buckets, debt]: [u64; 6]) -> Result<Quota, QuotaError> {
    let (period, start) = (Duration::from_micros(period), Duration::from_micros(start));
    let mut quota = match algorithm {
        Algorithm::TokenBucket => Quota::token_bucket(rate, period)?.capacity(capacity)?,
        Algorithm::FixedWindow => Quota::fixed_window(rate, period)?.capacity(capacity)?.start(start)?,
        Algorithm::SlidingWindow => Quota::sliding_window(rate, period)?.start(start)?.buckets(buckets)?,
        Algorithm::SlidingLog => Quota::sliding_log(rate, period)?,
        // The last there is in this version of the format.
        _ => Quota::concurrency(capacity, period)?,
    };
    if debt > 0 {
        quota = quota.max_debt((debt - 1).min(MAX_COUNT))?;
    }
    Ok(quota)
}

fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[index + 1..]));
        }
    }
    None
}
