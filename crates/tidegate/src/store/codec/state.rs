//! A state as whole numbers below 2^53, which every store can hold exactly.

use tidegate_core::{
    Algorithm, BucketCounts, Lease, Leases, MAX_COUNT, MAX_PERIOD, Quota, RequestLog, State, StoreError, Timestamp,
};

use super::corrupt;

/// The first whole number that Lua, whose numbers are doubles, cannot tell from its neighbours. Smaller numbers are
/// stored in one piece.
pub(crate) const F64_EXACT_LIMIT: u128 = 1 << 53;
/// The base of the two limbs in which larger numbers are stored: the high limb counts multiples of it.
pub(crate) const LIMB_BASE: u128 = 1 << 36;

/// The largest half of a lease ID. An ID is stored as two halves.
const MAX_LEASE_HALF: u64 = u32::MAX as u64;

/// The most units that can be in use: a capacity and the debt beyond it.
const MAX_USED: u64 = 2 * MAX_COUNT;

/// Converts a state to numbers. A state that is as good as new has none.
///
/// | algorithm | numbers |
/// | --- | --- |
/// | token bucket | the deficit in sub-units, as one number or two limbs; the time of the write |
/// | fixed window | the deficit in units; the time of the write |
/// | sliding window | the time of the write; the count of each bucket, oldest first |
/// | sliding log | the time of the write; the running total before the first run; the time of each run and the total after it |
/// | concurrency | the time of the write; the expiry of each lease, the earliest first; the high halves of their IDs; the low halves |
pub(crate) fn state_to_numbers(state: &State) -> Vec<u64> {
    match state {
        State::New => Vec::new(),
        State::TokenBucket { deficit, last } if *deficit < F64_EXACT_LIMIT => vec![*deficit as u64, last.as_micros()],
        State::TokenBucket { deficit, last } => {
            vec![(*deficit / LIMB_BASE) as u64, (*deficit % LIMB_BASE) as u64, last.as_micros()]
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
        State::Leases(leases) => {
            let last = state.last().unwrap_or(Timestamp::EPOCH).as_micros();
            let expiries = leases.entries().map(|(expires, _)| expires.as_micros());
            let half = |which: usize| leases.entries().map(move |(_, lease)| lease_halves(lease)[which]);
            [last].into_iter().chain(expiries).chain(half(0)).chain(half(1)).collect()
        }
    }
}

/// Reads the state of `quota` that has these numbers.
pub(crate) fn state_from_numbers(quota: &Quota, numbers: &[u64]) -> Result<State, StoreError> {
    // A lease expires after it was written, by at most this.
    let later = if quota.algorithm() == Algorithm::Concurrency { MAX_PERIOD.as_micros() } else { 0 };
    if numbers.iter().any(|number| u128::from(*number) >= F64_EXACT_LIMIT + later) {
        return Err(corrupt("a number in it is too large"));
    }
    let time = Timestamp::from_micros;
    let state = match (quota.algorithm(), numbers) {
        (Algorithm::TokenBucket, &[deficit, last]) => State::TokenBucket { deficit: deficit.into(), last: time(last) },
        (Algorithm::TokenBucket, &[high, low, last]) => {
            State::TokenBucket { deficit: u128::from(high) * LIMB_BASE + u128::from(low), last: time(last) }
        }
        (Algorithm::FixedWindow, &[deficit, last]) => State::FixedWindow { deficit, last: time(last) },
        (Algorithm::SlidingWindow, [last, counts @ ..]) if counts.len() == usize::from(quota.parts().buckets) + 1 => {
            State::SlidingWindow { counts: BucketCounts::from_slice(counts), last: time(*last) }
        }
        (Algorithm::SlidingLog, [last, before, runs @ ..]) if runs.len().is_multiple_of(2) => {
            let runs = read_log_runs(*before, *last, runs).ok_or_else(|| corrupt("its runs are not in order"))?;
            State::SlidingLog(RequestLog::from_runs(runs, time(*last)))
        }
        (Algorithm::Concurrency, [last, leases @ ..]) if leases.len().is_multiple_of(3) && !leases.is_empty() => {
            let entries = read_leases(leases).ok_or_else(|| corrupt("its leases are not in order"))?;
            State::Leases(Leases::from_entries(entries, time(*last)))
        }
        _ => return Err(corrupt("it has another number of numbers than its quota needs")),
    };
    // The arithmetic relies on this bound, which no quota can exceed.
    let exceeds_max = match &state {
        State::TokenBucket { deficit, .. } => *deficit > u128::from(quota.unit()) * u128::from(MAX_USED),
        State::FixedWindow { deficit, .. } => *deficit > MAX_USED,
        State::SlidingWindow { counts, .. } => counts.as_slice().iter().any(|count| *count > MAX_USED),
        _ => false,
    };
    if exceeds_max { Err(corrupt("more was used than can be")) } else { Ok(state) }
}

/// Splits the ID of a lease into its high and its low half.
pub(crate) fn lease_halves(lease: Lease) -> [u64; 2] {
    [lease.to_bits() >> 32, lease.to_bits() & MAX_LEASE_HALF]
}

/// Reads leases and their expiries. Returns `None` unless the expiries are in order and every ID has two valid halves.
fn read_leases(numbers: &[u64]) -> Option<Vec<(Timestamp, Lease)>> {
    let (expiries, ids) = numbers.split_at(numbers.len() / 3);
    let (high, low) = ids.split_at(expiries.len());
    let is_valid = expiries.is_sorted() && ids.iter().all(|half| *half <= MAX_LEASE_HALF);
    let ids = high.iter().zip(low).map(|(high, low)| Lease::from_bits(high << 32 | low));
    is_valid.then(|| expiries.iter().map(|expires| Timestamp::from_micros(*expires)).zip(ids).collect())
}

/// Reads the runs of a log. Returns `None` unless their times and totals grow.
fn read_log_runs(before: u64, last: u64, runs: &[u64]) -> Option<Vec<(Timestamp, u64)>> {
    let mut previous = (0, before);
    let run = |&[at, total]: &[u64; 2]| {
        let units = total.checked_sub(previous.1).filter(|_| previous.0 <= at && at <= last)?;
        previous = (at, total);
        Some((Timestamp::from_micros(at), units))
    };
    runs.as_chunks().0.iter().map(run).collect()
}
