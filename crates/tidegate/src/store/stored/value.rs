//! A state and its quota, as the bytes that a store keeps under a name.

use tidegate_core::{Quota, State, StoreError};

use super::{corrupt, numbers, quota_bytes, split};

/// What is kept of a key: its state, as numbers of eight bytes, and the quota it was written under.
pub fn encode(state: &State, quota: &Quota) -> Vec<u8> {
    let (numbers, quota) = (numbers(state), quota_bytes(quota));
    let mut value = Vec::with_capacity(8 * numbers.len() + quota.len());
    numbers.iter().for_each(|number| value.extend_from_slice(&number.to_le_bytes()));
    value.extend_from_slice(&quota);
    value
}

/// The quota and the state of a value, which most often was written under `likely`.
pub fn decode(value: &[u8], likely: &Quota) -> Result<(Quota, State), StoreError> {
    if let Some(numbers) = value.strip_suffix(&*quota_bytes(likely)) {
        return Ok((*likely, state(likely, numbers)?));
    }
    let (numbers, quota) = split(value)?;
    let state = state(&quota, numbers)?;
    Ok((quota, state))
}

fn state(quota: &Quota, bytes: &[u8]) -> Result<State, StoreError> {
    let (numbers, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(corrupt("its length is wrong"));
    }
    let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    super::state(quota, &numbers)
}
