//! Values stored under keys: until when the key lives, its state, and the quota the state was written under.
//!
//! The quota comes last, so that a script can tell by comparing bytes whether it is the same. The rest is numbers of
//! eight bytes, as Lua has them, and comes first, so that a script can write over them.

use tidegate_core::{Quota, State, StoreError, Timestamp};

use crate::store::codec::{self, F64_EXACT_LIMIT, corrupt, split_value};

/// Decodes a stored value that was written under `quota`, whose bytes are `quota_bytes`; none when it was written under
/// another one.
pub(super) fn decode_if_same_quota(
    quota_bytes: &[u8],
    quota: &Quota,
    value: &[u8],
) -> Result<Option<State>, StoreError> {
    value.strip_suffix(quota_bytes).map(|numbers| decode_numbers(quota, numbers)).transpose()
}

/// Decodes a stored value that was written under any quota, as a state of `quota` at the time `now`.
pub(super) fn decode_rebased(quota: &Quota, value: &[u8], now: Timestamp) -> Result<State, StoreError> {
    let (numbers, from) = split_value(value)?;
    Ok(decode_numbers(&from, numbers)?.rebase(&from, quota, now))
}

/// Encodes a stored value with this state and the bytes of its quota; empty for a state that is as good as new.
pub(super) fn encode(state: &State, quota: &[u8]) -> Vec<u8> {
    if *state == State::New {
        return Vec::new();
    }
    // Until when it lives is not known here: a script that steps from this writes all of it anew.
    [&encode_doubles(std::iter::once(0).chain(codec::state_to_numbers(state))), quota].concat()
}

/// Encodes numbers as a script reads them.
pub(super) fn encode_doubles(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(|number| (number as f64).to_le_bytes()).collect()
}

fn decode_numbers(quota: &Quota, bytes: &[u8]) -> Result<State, StoreError> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(corrupt("its length is wrong"));
    }
    // The first is until when it lives.
    let chunks = chunks.iter().skip(1);
    let numbers: Vec<u64> = chunks.map(|chunk| to_whole(f64::from_le_bytes(*chunk))).collect::<Result<_, _>>()?;
    codec::state_from_numbers(quota, &numbers)
}

fn to_whole(number: f64) -> Result<u64, StoreError> {
    let is_whole = (0.0..F64_EXACT_LIMIT as f64).contains(&number) && number.fract() == 0.0;
    if is_whole { Ok(number as u64) } else { Err(corrupt("a number in it is not whole")) }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Cost, MAX_COUNT, Op, days, seconds, step};
    use tidegate_testkit::Random;

    use super::*;
    use crate::store::codec::encode_quota;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn quotas() -> [Quota; 6] {
        [
            Quota::token_bucket(10, seconds(1)).unwrap(),
            Quota::token_bucket(4_294_967_291, days(366)).unwrap().capacity(MAX_COUNT).unwrap(),
            Quota::fixed_window(7, seconds(3)).unwrap().start(seconds(1)).unwrap().max_debt(0).unwrap(),
            Quota::sliding_window(10, seconds(1)).unwrap(),
            Quota::sliding_window(10, seconds(64)).unwrap().buckets(64).unwrap().max_debt(9).unwrap(),
            Quota::sliding_log(10, seconds(1)).unwrap(),
        ]
    }

    /// A value as a script would have written it after a few requests.
    fn value(quota: &Quota) -> (State, Vec<u8>) {
        let mut state = State::New;
        for micros in [0, 1_000, 1_001, 70_000] {
            let at = Timestamp::from_micros(NOW.as_micros() + micros);
            step(quota, &mut state, Op::Reserve(Cost::new(2).unwrap()), at);
        }
        let value = encode(&state, &encode_quota(quota));
        (state, value)
    }

    #[test]
    fn state_and_quota_round_trip() {
        for quota in quotas() {
            let (state, value) = value(&quota);
            assert_eq!(decode_if_same_quota(&encode_quota(&quota), &quota, &value).unwrap(), Some(state.clone()));
            assert_eq!(split_value(&value).unwrap().1, quota);
            assert!(!encode_quota(&quota).contains(&0));
            for other in quotas().iter().filter(|other| **other != quota) {
                assert_eq!(decode_if_same_quota(&encode_quota(other), other, &value).unwrap(), None);
                assert_eq!(decode_rebased(other, &value, NOW).unwrap(), state.clone().rebase(&quota, other, NOW));
            }
        }
    }

    #[test]
    fn damaged_values_never_panic() {
        let mut random = Random::new(1);
        for round in 0..5_000 {
            let quota = quotas()[round % 6];
            let mut bytes = value(&quota).1;
            for _ in 0..1 + random.below(6) {
                let place = random.below(bytes.len() as u64) as usize;
                match random.below(4) {
                    0 => bytes.truncate(place.max(1)),
                    1 => bytes.insert(place, random.below(256) as u8),
                    _ => bytes[place] = random.below(256) as u8,
                }
            }
            for other in quotas() {
                for mut state in [decode_rebased(&other, &bytes, NOW).ok(), decode_numbers(&other, &bytes).ok()]
                    .into_iter()
                    .flatten()
                {
                    for op in [Op::Limit(Cost::ONE), Op::Reserve(Cost::ONE), Op::Refund(Cost::ONE)] {
                        step(&other, &mut state, op, NOW);
                    }
                }
            }
        }
    }
}
