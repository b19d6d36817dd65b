//! The value that a store keeps under a name: a state and its quota as bytes.

use tidegate_core::{Quota, State, StoreError};

use super::{corrupt, encode_quota, split_value, state_to_numbers};

/// Encodes the state of a key, as numbers of eight bytes, and the quota it was written under.
pub fn encode(state: &State, quota: &Quota) -> Vec<u8> {
    let (numbers, quota) = (state_to_numbers(state), encode_quota(quota));
    let mut value = Vec::with_capacity(8 * numbers.len() + quota.len());
    numbers.iter().for_each(|number| value.extend_from_slice(&number.to_le_bytes()));
    value.extend_from_slice(&quota);
    value
}

/// Decodes the quota and the state of a value. Decoding is fastest for a value that was written under `likely`.
pub fn decode(value: &[u8], likely: &Quota) -> Result<(Quota, State), StoreError> {
    if let Some(numbers) = value.strip_suffix(&*encode_quota(likely)) {
        return Ok((*likely, decode_state(likely, numbers)?));
    }
    let (numbers, quota) = split_value(value)?;
    let state = decode_state(&quota, numbers)?;
    Ok((quota, state))
}

fn decode_state(quota: &Quota, bytes: &[u8]) -> Result<State, StoreError> {
    let (numbers, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(corrupt("its length is wrong"));
    }
    let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    super::state_from_numbers(quota, &numbers)
}
