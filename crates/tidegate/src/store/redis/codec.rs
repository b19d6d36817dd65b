//! What is stored under a key: until when it lives, the state, and the quota it was written under.
//!
//! The quota is there in full, so that whoever comes with another one can carry over what was used, and so that a
//! script can tell by comparing bytes whether it is the same. The rest is numbers of eight bytes, as Lua has them, and
//! comes first, so that a script can write over them.

use std::time::Duration;

use tidegate_core::{
    Algorithm, Counts, Log, MAX_COUNT, Quota, QuotaError, State, StoreError, StoreErrorKind, Timestamp,
};

/// The format's version, in the high half of the first byte.
const VERSION: u8 = 1 << 4;
/// A high limb counts this many.
pub(super) const LIMB: u128 = 1 << 36;
/// The first whole number that Lua cannot tell from its neighbours.
pub(super) const INEXACT: u128 = 1 << 53;

/// The most units that are ever used: a capacity and the debt beyond it.
const MOST: u64 = 2 * MAX_COUNT;

/// A quota as the bytes that a stored value ends with. The last of them is how many they are, so no quota's bytes end
/// with another's.
pub(super) fn quota_bytes(quota: &Quota) -> Vec<u8> {
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
    let numbers = match state {
        State::New => return Vec::new(),
        State::TokenBucket { deficit, last } if *deficit < INEXACT => vec![*deficit as u64, last.as_micros()],
        State::TokenBucket { deficit, last } => {
            vec![(*deficit / LIMB) as u64, (*deficit % LIMB) as u64, last.as_micros()]
        }
        State::FixedWindow { deficit, last } => vec![*deficit, last.as_micros()],
        State::SlidingWindow { counts, last } => {
            std::iter::once(last.as_micros()).chain(counts.as_slice().iter().copied()).collect()
        }
        State::SlidingLog(log) => {
            let mut total = 0;
            let runs = log.runs().flat_map(|(at, units)| {
                total += units;
                [at.as_micros(), total]
            });
            let last = state.last().unwrap_or(Timestamp::EPOCH).as_micros();
            [last, 0].into_iter().chain(runs).collect()
        }
    };
    // Until when it lives is not known here: a script that steps from this writes all of it anew.
    [&doubles(std::iter::once(0).chain(numbers)), quota].concat()
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
    let time = Timestamp::from_micros;
    let state = match (quota.algorithm(), &*numbers) {
        (Algorithm::TokenBucket, &[deficit, last]) => State::TokenBucket { deficit: deficit.into(), last: time(last) },
        (Algorithm::TokenBucket, &[high, low, last]) => {
            State::TokenBucket { deficit: u128::from(high) * LIMB + u128::from(low), last: time(last) }
        }
        (Algorithm::FixedWindow, &[deficit, last]) => State::FixedWindow { deficit, last: time(last) },
        (Algorithm::SlidingWindow, [last, counts @ ..]) if counts.len() == usize::from(quota.parts().buckets) + 1 => {
            State::SlidingWindow { counts: Counts::from_slice(counts), last: time(*last) }
        }
        (Algorithm::SlidingLog, [last, before, runs @ ..]) if runs.len().is_multiple_of(2) => {
            let runs = log_runs(*before, *last, runs).ok_or_else(|| corrupt("its runs are not in order"))?;
            State::SlidingLog(Log::from_runs(runs, time(*last)))
        }
        _ => return Err(corrupt("it has another number of numbers than its quota needs")),
    };
    // The arithmetic counts on this, and no quota lets it happen.
    let is_too_much = match &state {
        State::TokenBucket { deficit, .. } => *deficit > u128::from(quota.unit()) * u128::from(MOST),
        State::FixedWindow { deficit, .. } => *deficit > MOST,
        State::SlidingWindow { counts, .. } => counts.as_slice().iter().any(|count| *count > MOST),
        _ => false,
    };
    if is_too_much { Err(corrupt("more was used than can be")) } else { Ok(state) }
}

/// The runs of a log, when their times and totals grow.
fn log_runs(before: u64, last: u64, runs: &[u64]) -> Option<Vec<(Timestamp, u64)>> {
    let mut previous = (0, before);
    let run = |&[at, total]: &[u64; 2]| {
        let units = total.checked_sub(previous.1).filter(|_| previous.0 <= at && at <= last)?;
        previous = (at, total);
        Some((Timestamp::from_micros(at), units))
    };
    runs.as_chunks().0.iter().map(run).collect()
}

fn whole(number: f64) -> Result<u64, StoreError> {
    let is_whole = (0.0..INEXACT as f64).contains(&number) && number.fract() == 0.0;
    if is_whole { Ok(number as u64) } else { Err(corrupt("a number in it is not whole")) }
}

fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The numbers of a stored value, and its quota.
fn split(value: &[u8]) -> Result<(&[u8], Quota), StoreError> {
    let (last, _) = value.split_last().ok_or_else(|| corrupt("it is empty"))?;
    let middle = value.len().checked_sub(usize::from(*last)).ok_or_else(|| corrupt("it is cut off"))?;
    let (numbers, quota) = value.split_at(middle);
    Ok((numbers, read_quota(quota)?))
}

fn read_quota(bytes: &[u8]) -> Result<Quota, StoreError> {
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
        // The last there is in this version of the format.
        _ => Quota::sliding_log(rate, period)?,
    };
    if debt > 0 {
        quota = quota.max_debt((debt - 1).min(MAX_COUNT))?;
    }
    Ok(quota)
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

pub(super) fn micros(span: Duration) -> u64 {
    span.as_micros() as u64
}

fn corrupt(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("a value under our key is not ours: {why}"))
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Cost, Op, days, seconds, step};
    use tidegate_testkit::Random;

    use super::*;

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
