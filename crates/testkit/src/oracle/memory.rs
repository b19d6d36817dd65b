//! What one key remembers under one quota, in the words of the rules.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};
use tidegate_core::{Algorithm, Quota};

use super::held::Held;

/// The numbers of a quota, as the model uses them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) algorithm: Algorithm,
    pub(super) rate: i128,
    pub(super) capacity: i128,
    /// How far beyond the capacity a reservation may go.
    pub(super) debt: i128,
    /// Or how long a lease lives.
    pub(super) period: i128,
    start: i128,
    buckets: i128,
}

impl Rule {
    pub(super) fn new(quota: &Quota) -> Self {
        let parts = quota.parts();
        Rule {
            algorithm: parts.algorithm,
            rate: parts.rate.into(),
            capacity: parts.capacity.into(),
            debt: parts.max_debt.unwrap_or(u32::MAX).into(),
            period: parts.period.as_micros() as i128,
            start: parts.start.as_micros() as i128,
            buckets: parts.buckets.into(),
        }
    }

    /// The number of the window of `length` that `at` is in, counted from the one that begins at `start`.
    fn window(&self, at: i128, length: i128) -> i128 {
        (at - self.start).div_euclid(length)
    }

    fn bucket_length(&self) -> i128 {
        self.period / self.buckets
    }
}

/// What a key remembers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Memory {
    /// The tokens in the bucket, fewer than none in debt.
    Tokens(BigRational),
    /// What is left of the window's grants, less than nothing in debt.
    Grants(i128),
    /// What was taken in which bucket, by the bucket's number.
    Buckets(BTreeMap<i128, i128>),
    /// What was taken when, oldest first.
    Events(Vec<(i128, i128)>),
    /// Who holds a place.
    Leases(Held),
}

pub(super) fn whole(number: i128) -> BigRational {
    BigRational::from_integer(number.into())
}

impl Memory {
    /// A key that took `used` at `at`.
    pub(super) fn with_used(rule: &Rule, used: i128, at: i128) -> Self {
        match rule.algorithm {
            Algorithm::TokenBucket => Memory::Tokens(whole(rule.capacity - used)),
            Algorithm::FixedWindow => Memory::Grants(rule.capacity - used),
            Algorithm::SlidingWindow => {
                Memory::Buckets(BTreeMap::from([(rule.window(at, rule.bucket_length()), used)]))
            }
            // Units of a rate are no leases.
            Algorithm::Concurrency => Memory::Leases(Held::default()),
            _ => Memory::Events(vec![(at, used)]),
        }
    }

    /// This memory of the time `last` as it is at `at`, without what counts for nothing any more.
    pub(super) fn at(&self, rule: &Rule, last: i128, at: i128) -> Self {
        let capacity = rule.capacity;
        match self {
            Memory::Tokens(tokens) => {
                let came = BigRational::new((rule.rate * (at - last)).into(), rule.period.into());
                Memory::Tokens((tokens + came).min(whole(capacity)))
            }
            Memory::Grants(left) => {
                let entered = rule.window(at, rule.period) - rule.window(last, rule.period);
                Memory::Grants((left + entered * rule.rate).min(capacity))
            }
            Memory::Buckets(buckets) => {
                let inside = |number: &i128| share_inside(rule, *number, at).is_positive();
                Memory::Buckets(buckets.iter().filter(|(number, _)| inside(number)).map(|(n, c)| (*n, *c)).collect())
            }
            Memory::Events(events) => {
                Memory::Events(events.iter().copied().filter(|(then, _)| *then > at - rule.period).collect())
            }
            Memory::Leases(held) => Memory::Leases(held.at(at)),
        }
    }

    /// What has been used of the capacity at `at`, which is the time of this memory.
    pub(super) fn used(&self, rule: &Rule, at: i128) -> BigRational {
        match self {
            Memory::Tokens(tokens) => whole(rule.capacity) - tokens,
            Memory::Grants(left) => whole(rule.capacity - left),
            Memory::Buckets(buckets) => {
                let counted = |(number, count): (&i128, &i128)| share_inside(rule, *number, at) * whole(*count);
                buckets.iter().map(counted).fold(BigRational::zero(), |sum, counted| sum + counted)
            }
            Memory::Events(events) => whole(events.iter().map(|(_, units)| units).sum()),
            Memory::Leases(held) => whole(held.count()),
        }
    }

    /// Takes `units` at `at`, which is the time of this memory.
    pub(super) fn take(&mut self, rule: &Rule, units: i128, at: i128) {
        match self {
            Memory::Tokens(tokens) => *tokens -= whole(units),
            Memory::Grants(left) => *left -= units,
            Memory::Buckets(buckets) => *buckets.entry(rule.window(at, rule.bucket_length())).or_default() += units,
            Memory::Events(events) => events.push((at, units)),
            Memory::Leases(_) => unreachable!("units are not taken from leases"),
        }
    }

    /// Gives `units` back, the newest first, and never more than was taken.
    pub(super) fn give_back(&mut self, rule: &Rule, units: i128) {
        match self {
            Memory::Tokens(tokens) => *tokens = (&*tokens + whole(units)).min(whole(rule.capacity)),
            Memory::Grants(left) => *left = (*left + units).min(rule.capacity),
            Memory::Buckets(buckets) => {
                newest_first(buckets.values_mut().rev(), units);
                buckets.retain(|_, count| *count > 0);
            }
            Memory::Events(events) => {
                newest_first(events.iter_mut().rev().map(|(_, units)| units), units);
                events.retain(|(_, units)| *units > 0);
            }
            // Only a reset does.
            Memory::Leases(held) => *held = Held::default(),
        }
    }

    /// This memory, written at `last` under the rule `from`, under the rule `to`: what was used is kept.
    pub(super) fn rebased(&self, from: &Rule, to: &Rule, last: i128) -> Self {
        let same_buckets =
            (from.bucket_length(), from.buckets, from.start) == (to.bucket_length(), to.buckets, to.start);
        match (self, to.algorithm) {
            (Memory::Tokens(tokens), Algorithm::TokenBucket) => {
                // What is missing, in the sub-units of the new quota: one token is the period over the greatest
                // common divisor of rate and period. Rounded up.
                let token = BigRational::new(to.rate.into(), to.period.into()).denom().clone();
                let missing = (whole(from.capacity) - tokens) * BigRational::from_integer(token.clone());
                let missing = BigRational::new(missing.ceil().to_integer(), token);
                Memory::Tokens(whole(to.capacity) - missing)
            }
            (Memory::Buckets(_), Algorithm::SlidingWindow) if same_buckets => self.clone(),
            (Memory::Events(_), Algorithm::SlidingLog) | (Memory::Leases(_), Algorithm::Concurrency) => self.clone(),
            // Nor are leases units of a rate.
            (Memory::Leases(_), _) => Memory::with_used(to, 0, last).at(to, last, last),
            _ => Memory::with_used(to, integer(&self.used(from, last).ceil()), last),
        }
    }
}

/// A rational that is a whole number, as one.
pub(super) fn integer(number: &BigRational) -> i128 {
    i128::try_from(number.to_integer()).expect("a quota's numbers fit 128 bits by far")
}

/// The share of the bucket `number` that lies in the period before `at`, or after it.
fn share_inside(rule: &Rule, number: i128, at: i128) -> BigRational {
    let length = rule.bucket_length();
    let end = rule.start + (number + 1) * length;
    let inside = BigRational::new(BigInt::from(end - (at - rule.period)), length.into());
    inside.max(BigRational::zero()).min(BigRational::one())
}

fn newest_first<'a>(counts: impl Iterator<Item = &'a mut i128>, units: i128) {
    let mut left = units;
    for count in counts {
        let back = left.min(*count);
        *count -= back;
        left -= back;
    }
}
