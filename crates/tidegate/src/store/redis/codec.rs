//! What is stored under a key: until when it lives, the state, and the quota it was written under.
//!
//! The quota comes last, so that a script can tell by comparing bytes whether it is the same. The rest is numbers of
//! eight bytes, as Lua has them, and comes first, so that a script can write over them.

use tidegate_core::{Quota, State, StoreError, Timestamp};

use crate::store::stored::{self, NARROW, corrupt, split};

/// The state in a stored value that was written under `quota`, whose bytes are `known`; none when it was written under
/// another one.
pub(super) fn state_under(known: &[u8], quota: &Quota, value: &[u8]) -> Result<Option<State>, StoreError> {
    value.strip_suffix(known).map(|numbers| decode(quota, numbers)).transpose()
}

/// The state in a stored value that was written under any quota, as a state of `quota` at the time `now`.
pub(super) fn rebased(quota: &Quota, value: &[u8], now: Timestamp) -> Result<State, StoreError> {
    let (numbers, from) = split(value)?;
    Ok(decode(&from, numbers)?.rebase(&from, quota, now))
}

/// A stored value with this state and the bytes of its quota; empty for a state that is as good as new.
pub(super) fn encode(state: &State, quota: &[u8]) -> Vec<u8> {
    if *state == State::New {
        return Vec::new();
    }
    // Until when it lives is not known here: a script that steps from this writes all of it anew.
    [&doubles(std::iter::once(0).chain(stored::numbers(state))), quota].concat()
}

/// Numbers as a script reads them.
pub(super) fn doubles(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(|number| (number as f64).to_le_bytes()).collect()
}

fn decode(quota: &Quota, bytes: &[u8]) -> Result<State, StoreError> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(corrupt("its length is wrong"));
    }
    // The first is until when it lives.
    let chunks = chunks.iter().skip(1);
    let numbers: Vec<u64> = chunks.map(|chunk| whole(f64::from_le_bytes(*chunk))).collect::<Result<_, _>>()?;
    stored::state(quota, &numbers)
}

fn whole(number: f64) -> Result<u64, StoreError> {
    let is_whole = (0.0..NARROW as f64).contains(&number) && number.fract() == 0.0;
    if is_whole { Ok(number as u64) } else { Err(corrupt("a number in it is not whole")) }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Cost, MAX_COUNT, Op, days, seconds, step};
    use tidegate_testkit::Random;

    use super::*;
    use crate::store::stored::quota_bytes;

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
        let value = encode(&state, &quota_bytes(quota));
        (state, value)
    }

    #[test]
    fn a_state_and_its_quota_can_be_read_back() {
        for quota in quotas() {
            let (state, value) = value(&quota);
            assert_eq!(state_under(&quota_bytes(&quota), &quota, &value).unwrap(), Some(state.clone()));
            assert_eq!(split(&value).unwrap().1, quota);
            assert!(!quota_bytes(&quota).contains(&0));
            for other in quotas().iter().filter(|other| **other != quota) {
                assert_eq!(state_under(&quota_bytes(other), other, &value).unwrap(), None);
                assert_eq!(rebased(other, &value, NOW).unwrap(), state.clone().rebase(&quota, other, NOW));
            }
        }
    }

    #[test]
    fn whatever_is_stored_nothing_panics() {
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
            for asked in quotas() {
                for mut state in [rebased(&asked, &bytes, NOW).ok(), decode(&asked, &bytes).ok()].into_iter().flatten()
                {
                    for op in [Op::Limit(Cost::ONE), Op::Reserve(Cost::ONE), Op::Refund(Cost::ONE)] {
                        step(&asked, &mut state, op, NOW);
                    }
                }
            }
        }
    }
}
