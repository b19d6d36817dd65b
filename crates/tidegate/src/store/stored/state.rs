//! A state as whole numbers below 2^53, which every store can hold exactly.

use tidegate_core::{
    Algorithm, Counts, Lease, Leases, Log, MAX_COUNT, MAX_PERIOD, Quota, State, StoreError, Timestamp,
};

use super::corrupt;

/// Numbers below this are stored in one piece: the first whole number that Lua cannot tell from its neighbours.
pub(crate) const NARROW: u128 = 1 << 53;
/// Larger ones are stored in two, of which the high one counts this many.
pub(crate) const LIMB: u128 = 1 << 36;

/// Half of a lease's id, which is stored in two.
const HALF: u64 = u32::MAX as u64;

/// The most units that are ever used: a capacity and the debt beyond it.
const MOST: u64 = 2 * MAX_COUNT;

/// The numbers of a state; none for one that is as good as new.
///
/// | algorithm | numbers |
/// | --- | --- |
/// | token bucket | what is missing in sub-units, in one piece or two; when it was written |
/// | fixed window | what is missing in units; when it was written |
/// | sliding window | when it was written; what each bucket has seen, oldest first |
/// | sliding log | when it was written; the running total before the first run; the time of each run and the total after it |
/// | concurrency | when it was written; when each lease expires, the earliest first; the high halves of their ids; the low halves |
pub(crate) fn numbers(state: &State) -> Vec<u64> {
    match state {
        State::New => Vec::new(),
        State::TokenBucket { deficit, last } if *deficit < NARROW => vec![*deficit as u64, last.as_micros()],
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
        State::Leases(leases) => {
            let last = state.last().unwrap_or(Timestamp::EPOCH).as_micros();
            let expiries = leases.entries().map(|(expires, _)| expires.as_micros());
            let half = |which: usize| leases.entries().map(move |(_, lease)| halves(lease)[which]);
            [last].into_iter().chain(expiries).chain(half(0)).chain(half(1)).collect()
        }
    }
}

/// The state of `quota` with these numbers.
pub(crate) fn state(quota: &Quota, numbers: &[u64]) -> Result<State, StoreError> {
    // A lease expires later than it was written, and only by as much.
    let later = if quota.algorithm() == Algorithm::Concurrency { MAX_PERIOD.as_micros() } else { 0 };
    if numbers.iter().any(|number| u128::from(*number) >= NARROW + later) {
        return Err(corrupt("a number in it is too large"));
    }
    let time = Timestamp::from_micros;
    let state = match (quota.algorithm(), numbers) {
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
        (Algorithm::Concurrency, [last, leases @ ..]) if leases.len().is_multiple_of(3) && !leases.is_empty() => {
            let held = leases_held(leases).ok_or_else(|| corrupt("its leases are not in order"))?;
            State::Leases(Leases::from_entries(held, time(*last)))
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

/// The two halves of a lease's id.
pub(crate) fn halves(lease: Lease) -> [u64; 2] {
    [lease.to_bits() >> 32, lease.to_bits() & HALF]
}

/// The leases and when they expire, when that is in order and their ids are of two halves.
fn leases_held(numbers: &[u64]) -> Option<Vec<(Timestamp, Lease)>> {
    let (expiries, ids) = numbers.split_at(numbers.len() / 3);
    let (high, low) = ids.split_at(expiries.len());
    let is_ours = expiries.is_sorted() && ids.iter().all(|half| *half <= HALF);
    let ids = high.iter().zip(low).map(|(high, low)| Lease::from_bits(high << 32 | low));
    is_ours.then(|| expiries.iter().map(|expires| Timestamp::from_micros(*expires)).zip(ids).collect())
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
