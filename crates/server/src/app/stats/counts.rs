//! Decision counts of one limit, by outcome and reason.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tidegate::{Decision, Error, Reason};

/// How many reasons are counted apart, including none and unknown ones.
const REASONS: usize = 7;
const REASON_NAMES: [Option<&str>; REASONS] = [
    None,
    Some(Reason::Rate.as_str()),
    Some(Reason::Deny.as_str()),
    Some(Reason::CostExceedsCapacity.as_str()),
    Some(Reason::Concurrency.as_str()),
    Some(Reason::Store.as_str()),
    Some("other"),
];
const STORE_REASON: usize = 5;
/// First allowed by reason, then denied by reason, then failures.
const FAILED: usize = 2 * REASONS;
const INVALID: usize = FAILED + 1;
const OUTCOMES: usize = INVALID + 1;

/// Returns the index of a result in a row of counters.
#[inline]
fn outcome_index(result: &Result<Decision, Error>) -> usize {
    match result {
        Ok(decision) => {
            let reason = match decision.reason() {
                None => 0,
                Some(Reason::Rate) => 1,
                Some(Reason::Deny) => 2,
                Some(Reason::CostExceedsCapacity) => 3,
                Some(Reason::Concurrency) => 4,
                Some(Reason::Store) => STORE_REASON,
                Some(_) => REASONS - 1,
            };
            if decision.allowed() { reason } else { REASONS + reason }
        }
        Err(error) if error.is_misuse() => INVALID,
        Err(_) => FAILED,
    }
}

/// Threads count in different stripes, so that they do not contend for a cache line.
const STRIPES: usize = 4;

/// The counters of one thread or of a few, aligned to two cache lines because processors prefetch pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; OUTCOMES]);

/// The counters of one limit, which only grow.
#[derive(Debug, Default)]
pub(crate) struct DecisionCounters {
    stripes: [Stripe; STRIPES],
}

impl DecisionCounters {
    #[inline]
    pub(super) fn count(&self, result: &Result<Decision, Error>) {
        self.stripes[stripe()].0[outcome_index(result)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    pub(crate) fn total(&self) -> DecisionCounts {
        let of = |outcome: usize| self.stripes.iter().map(|stripe| stripe.0[outcome].load(Ordering::Relaxed)).sum();
        DecisionCounts(std::array::from_fn(of))
    }
}

/// Returns the stripe of this thread.
#[inline]
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        mine.get() % STRIPES
    })
}

/// The counts of one limit, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DecisionCounts([u64; OUTCOMES]);

impl DecisionCounts {
    /// Returns each outcome with its reason, if any, and its count.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>, u64)> {
        self.0.into_iter().enumerate().map(|(place, count)| match place {
            FAILED => ("failed", None, count),
            INVALID => ("invalid", None, count),
            place if place < REASONS => ("allowed", REASON_NAMES[place], count),
            place => ("denied", REASON_NAMES[place - REASONS], count),
        })
    }

    /// Returns the outcomes to export: those that occurred, and two that every limit has from the start. So a first
    /// denial is an increase and not a new series.
    pub(crate) fn iter_exported(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>, u64)> {
        let always = |outcome, reason| matches!((outcome, reason), ("allowed", None) | ("denied", Some("rate")));
        self.iter().filter(move |&(outcome, reason, count)| count > 0 || always(outcome, reason))
    }

    /// Returns everything that was allowed.
    pub(crate) fn allowed(&self) -> u64 {
        self.0[..REASONS].iter().sum()
    }

    /// Returns everything that was denied.
    pub(crate) fn denied(&self) -> u64 {
        self.0[REASONS..FAILED].iter().sum()
    }

    /// Returns the requests without a decision: the store failed under `closed`, or the request was invalid.
    pub(crate) fn failed(&self) -> u64 {
        self.0[FAILED] + self.0[INVALID]
    }

    /// Of the allowed: requests that were denied in shadow mode.
    pub(crate) fn shadowed(&self) -> u64 {
        self.allowed() - self.0[0] - self.0[STORE_REASON]
    }

    /// Of the allowed: requests that the failure policy admitted without the store.
    pub(crate) fn without_store(&self) -> u64 {
        self.0[STORE_REASON]
    }

    pub(crate) fn plus(&self, other: &DecisionCounts) -> DecisionCounts {
        DecisionCounts(std::array::from_fn(|place| self.0[place] + other.0[place]))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate::store::DecisionParts;

    use super::*;

    fn decision(allowed: bool, reason: Option<Reason>) -> Result<Decision, Error> {
        let parts = DecisionParts {
            allowed,
            limit: 1,
            remaining: 0,
            retry_after: None,
            next_after: None,
            reset_after: 0,
            reason,
        };
        Ok(Decision::from(parts))
    }

    #[test]
    fn every_outcome_is_counted_separately() {
        let reasons =
            [Reason::Rate, Reason::Deny, Reason::CostExceedsCapacity, Reason::Concurrency, Reason::Store].map(Some);
        for allowed in [true, false] {
            for reason in reasons.into_iter().chain([None]) {
                let counters = DecisionCounters::default();
                counters.count(&decision(allowed, reason));
                let name = if allowed { "allowed" } else { "denied" };
                let counted: Vec<_> = counters.total().iter().filter(|(.., count)| *count > 0).collect();
                assert_eq!(counted, [(name, reason.map(Reason::as_str), 1)]);
            }
        }
        let counters = DecisionCounters::default();
        counters.count(&Err(Error::Closed));
        assert_eq!(counters.total().iter().find(|(.., count)| *count > 0), Some(("failed", None, 1)));
    }

    #[test]
    fn sums_add_the_outcomes_they_name() {
        let counters = DecisionCounters::default();
        for (reason, times) in [(None, 1), (Some(Reason::Rate), 10), (Some(Reason::Store), 100)] {
            (0..times).for_each(|_| counters.count(&decision(true, reason)));
        }
        (0..1000).for_each(|_| counters.count(&decision(false, Some(Reason::Deny))));
        counters.count(&Err(Error::Closed));
        let counts = counters.total();
        assert_eq!((counts.allowed(), counts.denied(), counts.failed()), (111, 1000, 1));
        assert_eq!((counts.shadowed(), counts.without_store()), (10, 100));
    }

    #[test]
    fn concurrent_counts_are_not_lost() {
        let counters = Arc::new(DecisionCounters::default());
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let counters = Arc::clone(&counters);
                std::thread::spawn(move || (0..10_000).for_each(|_| counters.count(&decision(true, None))))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("counted"));
        assert_eq!(counters.total().allowed(), 80_000);
    }
}
