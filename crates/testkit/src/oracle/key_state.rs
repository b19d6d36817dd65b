//! The state of one key in the reference model, written from the rules of each algorithm.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};
use tidegate_core::{Algorithm, Lease, Quota};

/// The numbers of a quota, in the form that the model uses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) algorithm: Algorithm,
    pub(super) rate: i128,
    pub(super) capacity: i128,
    /// The most units that a reservation may take beyond the capacity.
    pub(super) debt: i128,
    /// The period, or the time to live of a lease.
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

    /// Returns the number of the window of `length` that contains `at`, counted from the one that begins at `start`.
    fn window(&self, at: i128, length: i128) -> i128 {
        (at - self.start).div_euclid(length)
    }

    fn bucket_length(&self) -> i128 {
        self.period / self.buckets
    }
}

/// The state of a key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum KeyState {
    /// The tokens in the bucket, negative in debt.
    Tokens(BigRational),
    /// The units left in the window, negative in debt.
    Grants(i128),
    /// The units taken in each bucket, by the bucket's number.
    Buckets(BTreeMap<i128, i128>),
    /// The units taken and their times, oldest first.
    Events(Vec<(i128, i128)>),
    /// The leases in flight.
    Leases(LeaseList),
}

pub(super) fn rational(number: i128) -> BigRational {
    BigRational::from_integer(number.into())
}

impl KeyState {
    /// Creates the state of a key that took `used` at `at`.
    pub(super) fn with_used(rule: &Rule, used: i128, at: i128) -> Self {
        match rule.algorithm {
            Algorithm::TokenBucket => KeyState::Tokens(rational(rule.capacity - used)),
            Algorithm::FixedWindow => KeyState::Grants(rule.capacity - used),
            Algorithm::SlidingWindow => {
                KeyState::Buckets(BTreeMap::from([(rule.window(at, rule.bucket_length()), used)]))
            }
            // Units of a rate are not leases.
            Algorithm::Concurrency => KeyState::Leases(LeaseList::default()),
            _ => KeyState::Events(vec![(at, used)]),
        }
    }

    /// Advances this state from the time `last` to `at`, and drops everything that no longer counts.
    pub(super) fn advance(&self, rule: &Rule, last: i128, at: i128) -> Self {
        let capacity = rule.capacity;
        match self {
            KeyState::Tokens(tokens) => {
                let came = BigRational::new((rule.rate * (at - last)).into(), rule.period.into());
                KeyState::Tokens((tokens + came).min(rational(capacity)))
            }
            KeyState::Grants(left) => {
                let entered = rule.window(at, rule.period) - rule.window(last, rule.period);
                KeyState::Grants((left + entered * rule.rate).min(capacity))
            }
            KeyState::Buckets(buckets) => {
                let inside = |number: &i128| share_in_period(rule, *number, at).is_positive();
                KeyState::Buckets(buckets.iter().filter(|(number, _)| inside(number)).map(|(n, c)| (*n, *c)).collect())
            }
            KeyState::Events(events) => {
                KeyState::Events(events.iter().copied().filter(|(then, _)| *then > at - rule.period).collect())
            }
            KeyState::Leases(held) => KeyState::Leases(held.unexpired_at(at)),
        }
    }

    /// Returns the used part of the capacity at `at`, which is the time of this state.
    pub(super) fn used(&self, rule: &Rule, at: i128) -> BigRational {
        match self {
            KeyState::Tokens(tokens) => rational(rule.capacity) - tokens,
            KeyState::Grants(left) => rational(rule.capacity - left),
            KeyState::Buckets(buckets) => {
                let counted = |(number, count): (&i128, &i128)| share_in_period(rule, *number, at) * rational(*count);
                buckets.iter().map(counted).fold(BigRational::zero(), |sum, counted| sum + counted)
            }
            KeyState::Events(events) => rational(events.iter().map(|(_, units)| units).sum()),
            KeyState::Leases(held) => rational(held.count()),
        }
    }

    /// Takes `units` at `at`, which is the time of this state.
    pub(super) fn take(&mut self, rule: &Rule, units: i128, at: i128) {
        match self {
            KeyState::Tokens(tokens) => *tokens -= rational(units),
            KeyState::Grants(left) => *left -= units,
            KeyState::Buckets(buckets) => *buckets.entry(rule.window(at, rule.bucket_length())).or_default() += units,
            KeyState::Events(events) => events.push((at, units)),
            KeyState::Leases(_) => unreachable!("units are not taken from leases"),
        }
    }

    /// Refunds `units`, the newest first, and never more than was taken.
    pub(super) fn refund(&mut self, rule: &Rule, units: i128) {
        match self {
            KeyState::Tokens(tokens) => *tokens = (&*tokens + rational(units)).min(rational(rule.capacity)),
            KeyState::Grants(left) => *left = (*left + units).min(rule.capacity),
            KeyState::Buckets(buckets) => {
                remove_newest(buckets.values_mut().rev(), units);
                buckets.retain(|_, count| *count > 0);
            }
            KeyState::Events(events) => {
                remove_newest(events.iter_mut().rev().map(|(_, units)| units), units);
                events.retain(|(_, units)| *units > 0);
            }
            // Only a reset refunds leases.
            KeyState::Leases(held) => *held = LeaseList::default(),
        }
    }

    /// Converts this state, written at `last` under the rule `from`, to the rule `to`. Usage is kept.
    pub(super) fn rebase(&self, from: &Rule, to: &Rule, last: i128) -> Self {
        let same_buckets =
            (from.bucket_length(), from.buckets, from.start) == (to.bucket_length(), to.buckets, to.start);
        match (self, to.algorithm) {
            (KeyState::Tokens(tokens), Algorithm::TokenBucket) => {
                // The missing tokens in sub-units of the new quota, rounded up. One token is the period over the
                // greatest common divisor of rate and period.
                let token = BigRational::new(to.rate.into(), to.period.into()).denom().clone();
                let missing = (rational(from.capacity) - tokens) * BigRational::from_integer(token.clone());
                let missing = BigRational::new(missing.ceil().to_integer(), token);
                KeyState::Tokens(rational(to.capacity) - missing)
            }
            (KeyState::Buckets(_), Algorithm::SlidingWindow) if same_buckets => self.clone(),
            (KeyState::Events(_), Algorithm::SlidingLog) | (KeyState::Leases(_), Algorithm::Concurrency) => {
                self.clone()
            }
            // Leases are not units of a rate either.
            (KeyState::Leases(_), _) => KeyState::with_used(to, 0, last).advance(to, last, last),
            _ => KeyState::with_used(to, to_i128(&self.used(from, last).ceil()), last),
        }
    }
}

/// Converts a rational that is a whole number.
pub(super) fn to_i128(number: &BigRational) -> i128 {
    i128::try_from(number.to_integer()).expect("a quota's numbers fit 128 bits by far")
}

/// Returns the share of the bucket `number` inside the period before `at`, or after it.
fn share_in_period(rule: &Rule, number: i128, at: i128) -> BigRational {
    let length = rule.bucket_length();
    let end = rule.start + (number + 1) * length;
    let inside = BigRational::new(BigInt::from(end - (at - rule.period)), length.into());
    inside.max(BigRational::zero()).min(BigRational::one())
}

fn remove_newest<'a>(counts: impl Iterator<Item = &'a mut i128>, units: i128) {
    let mut left = units;
    for count in counts {
        let back = left.min(*count);
        *count -= back;
        left -= back;
    }
}

/// A list of leases and their expiries, in the order of admission.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LeaseList(Vec<(i128, Lease)>);

impl LeaseList {
    /// Returns the leases that have not expired at `at`.
    fn unexpired_at(&self, at: i128) -> Self {
        LeaseList(self.0.iter().copied().filter(|(expires, _)| at < *expires).collect())
    }

    fn count(&self) -> i128 {
        self.0.len() as i128
    }

    pub(super) fn contains(&self, lease: Lease) -> bool {
        self.0.iter().any(|(_, held)| *held == lease)
    }

    /// Adds the lease, or renews it, with this expiry.
    pub(super) fn insert(&mut self, lease: Lease, until: i128) {
        self.remove(lease);
        self.0.push((until, lease));
    }

    pub(super) fn remove(&mut self, lease: Lease) {
        self.0.retain(|(_, held)| *held != lease);
    }
}
