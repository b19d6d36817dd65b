//! Counts of one limit.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tidegate::{Decision, Error, Reason};

/// How many reasons are told apart, those included that have none and those that are not known here.
const REASONS: usize = 7;
const NAMES: [Option<&str>; REASONS] = [
    None,
    Some(Reason::Rate.as_str()),
    Some(Reason::Deny.as_str()),
    Some(Reason::CostExceedsCapacity.as_str()),
    Some(Reason::Concurrency.as_str()),
    Some(Reason::Store.as_str()),
    Some("other"),
];
const STORE: usize = 5;
/// First what was allowed, by reason, then what was denied, by reason, then what has neither.
const FAILED: usize = 2 * REASONS;
const INVALID: usize = FAILED + 1;
const OUTCOMES: usize = INVALID + 1;

/// What came of a request, as a place in a row of counters.
#[inline]
fn outcome(answer: &Result<Decision, Error>) -> usize {
    match answer {
        Ok(decision) => {
            let reason = match decision.reason() {
                None => 0,
                Some(Reason::Rate) => 1,
                Some(Reason::Deny) => 2,
                Some(Reason::CostExceedsCapacity) => 3,
                Some(Reason::Concurrency) => 4,
                Some(Reason::Store) => STORE,
                Some(_) => REASONS - 1,
            };
            if decision.allowed() { reason } else { REASONS + reason }
        }
        Err(error) if error.is_misuse() => INVALID,
        Err(_) => FAILED,
    }
}

/// Threads count in different places, so that they do not fight over one.
const STRIPES: usize = 4;

/// The row of one thread or of a few. Its own two lines of the cache, as processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; OUTCOMES]);

/// Counts of one limit, which only grow.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    stripes: [Stripe; STRIPES],
}

impl Tally {
    #[inline]
    pub(super) fn count(&self, answer: &Result<Decision, Error>) {
        self.stripes[stripe()].0[outcome(answer)].fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub(crate) fn counts(&self) -> Counts {
        let of = |outcome: usize| self.stripes.iter().map(|stripe| stripe.0[outcome].load(Ordering::Relaxed)).sum();
        Counts(std::array::from_fn(of))
    }
}

/// Which row this thread counts in.
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

/// What was counted of one limit, or of several together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts([u64; OUTCOMES]);

impl Counts {
    /// Each outcome, the reason if it has one, and how often it was.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>, u64)> {
        self.0.into_iter().enumerate().map(|(place, count)| match place {
            FAILED => ("failed", None, count),
            INVALID => ("invalid", None, count),
            place if place < REASONS => ("allowed", NAMES[place], count),
            place => ("denied", NAMES[place - REASONS], count),
        })
    }

    /// The same, but of what never was only what every limit has from the start; so that a first denial is a rise and not a
    /// beginning.
    pub(crate) fn each_to_tell(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>, u64)> {
        let always = |outcome, reason| matches!((outcome, reason), ("allowed", None) | ("denied", Some("rate")));
        self.each().filter(move |&(outcome, reason, count)| count > 0 || always(outcome, reason))
    }

    /// Everything that was allowed, for whatever reason.
    pub(crate) fn allowed(&self) -> u64 {
        self.0[..REASONS].iter().sum()
    }

    /// Everything that was denied.
    pub(crate) fn denied(&self) -> u64 {
        self.0[REASONS..FAILED].iter().sum()
    }

    /// What got no decision: the store was broken under `closed`, or the request was wrong.
    pub(crate) fn failed(&self) -> u64 {
        self.0[FAILED] + self.0[INVALID]
    }

    /// Of the allowed: what would have been denied were it not for shadow mode.
    pub(crate) fn shadowed(&self) -> u64 {
        self.allowed() - self.0[0] - self.0[STORE]
    }

    /// Of the allowed: what the failure policy admitted without asking the store.
    pub(crate) fn without_store(&self) -> u64 {
        self.0[STORE]
    }

    pub(crate) fn plus(&self, other: &Counts) -> Counts {
        Counts(std::array::from_fn(|place| self.0[place] + other.0[place]))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate::DecisionParts;

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
    fn every_outcome_has_a_place_of_its_own() {
        let reasons =
            [Reason::Rate, Reason::Deny, Reason::CostExceedsCapacity, Reason::Concurrency, Reason::Store].map(Some);
        for allowed in [true, false] {
            for reason in reasons.into_iter().chain([None]) {
                let tally = Tally::default();
                tally.count(&decision(allowed, reason));
                let name = if allowed { "allowed" } else { "denied" };
                let counted: Vec<_> = tally.counts().each().filter(|(.., count)| *count > 0).collect();
                assert_eq!(counted, [(name, reason.map(Reason::as_str), 1)]);
            }
        }
        let tally = Tally::default();
        tally.count(&Err(Error::Closed));
        assert_eq!(tally.counts().each().find(|(.., count)| *count > 0), Some(("failed", None, 1)));
    }

    #[test]
    fn sums_are_of_what_they_say() {
        let tally = Tally::default();
        for (reason, times) in [(None, 1), (Some(Reason::Rate), 10), (Some(Reason::Store), 100)] {
            (0..times).for_each(|_| tally.count(&decision(true, reason)));
        }
        (0..1000).for_each(|_| tally.count(&decision(false, Some(Reason::Deny))));
        tally.count(&Err(Error::Closed));
        let counts = tally.counts();
        assert_eq!((counts.allowed(), counts.denied(), counts.failed()), (111, 1000, 1));
        assert_eq!((counts.shadowed(), counts.without_store()), (10, 100));
    }

    #[test]
    fn threads_lose_nothing() {
        let tally = Arc::new(Tally::default());
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let tally = Arc::clone(&tally);
                std::thread::spawn(move || (0..10_000).for_each(|_| tally.count(&decision(true, None))))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("counted"));
        assert_eq!(tally.counts().allowed(), 80_000);
    }
}
