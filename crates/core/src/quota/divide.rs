//! Division of a quota: among the shards of a limit, or the replicas of a service.

use std::num::NonZeroU32;

use super::{Algorithm, MAX_PERIOD, MAX_SHARDS, Quota, QuotaError};

impl Quota {
    /// Splits this quota into `parts` whose numbers add up to exactly the whole: 10 over 3 is 4 + 3 + 3. No part may
    /// get less than 1, and there are at most [`MAX_SHARDS`] parts.
    pub fn split(&self, parts: u32) -> Result<Vec<Quota>, QuotaError> {
        let fitting = self.rate.min(self.capacity);
        let most = fitting.min(MAX_SHARDS);
        if !(1..=most).contains(&parts) {
            let reason = if fitting > MAX_SHARDS { "" } else { ", so that every part gets at least 1" };
            return Err(QuotaError::new("shards", parts, format!("a whole number from 1 to {most}{reason}")));
        }
        let share = |whole: u32, index: u32| whole / parts + u32::from(index < whole % parts);
        let part = |index| {
            let max_debt = self.max_debt.map(|debt| share(debt, index));
            let (rate, capacity) = (share(self.rate, index), share(self.capacity, index));
            Quota { rate, capacity, max_debt, ..*self }.with_derived_fields()
        };
        Ok((0..parts).map(part).collect())
    }

    /// Returns the share of one of `replicas`, so that all of them together keep to this quota's rate. Its numbers are
    /// divided and rounded down, and are at least 1.
    ///
    /// A rate that would be less than 1 becomes 1 in a period that is longer by that factor, up to [`MAX_PERIOD`]. A
    /// capacity that would be less than 1 becomes 1, so together the replicas can admit more than the capacity at once.
    /// The time to live of a lease does not change.
    pub fn share(&self, replicas: NonZeroU32) -> Quota {
        let replicas = replicas.get();
        let longer = match self.algorithm {
            Algorithm::Concurrency => 1,
            _ => u64::from(replicas.div_ceil(self.rate)).min(MAX_PERIOD.as_micros() as u64 / self.period),
        };
        let share = Quota {
            rate: (self.rate / replicas).max(1),
            period: self.period * longer,
            capacity: (self.capacity / replicas).max(1),
            max_debt: self.max_debt.map(|debt| debt / replicas),
            ..*self
        };
        share.with_derived_fields()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAX_COUNT, days, minutes, seconds};

    #[test]
    fn split_rejects_parts_of_less_than_one() {
        let bucket = Quota::token_bucket(10, seconds(1)).unwrap();
        for parts in [0, 11] {
            let error = bucket.split(parts).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "shards {parts} is not accepted: expected a whole number from 1 to 10, so that every part gets at least 1"
                )
            );
        }
    }

    #[test]
    fn split_rejects_more_than_max_shards() {
        let huge = Quota::token_bucket(MAX_COUNT, seconds(1)).unwrap();
        assert_eq!(huge.split(MAX_SHARDS).unwrap().len(), 1_024);
        for parts in [1_025, u32::MAX] {
            let error = huge.split(parts).unwrap_err();
            assert_eq!((error.field(), error.value()), ("shards", &*parts.to_string()));
            assert_eq!(error.expected(), "a whole number from 1 to 1024");
        }
    }

    #[test]
    fn split_parts_add_up_to_the_quota() {
        let whole = Quota::token_bucket(10, minutes(1)).unwrap().capacity(20).unwrap().max_debt(5).unwrap();
        let parts = whole.split(3).unwrap();
        let numbers: Vec<_> = parts.iter().map(|part| (part.rate, part.capacity, part.max_debt)).collect();
        assert_eq!(numbers, [(4, 7, Some(2)), (3, 7, Some(2)), (3, 6, Some(1))]);
    }

    #[test]
    fn shares_of_all_replicas_never_exceed_the_rate() {
        for algorithm in Algorithm::RATES {
            for rate in [1, 2, 7, 10, MAX_COUNT] {
                let whole = Quota::new(algorithm, rate, minutes(1)).unwrap();
                for replicas in [1, 2, 3, 7, 10, 11, 500] {
                    let share = whole.share(NonZeroU32::new(replicas).unwrap());
                    // Rate over period, multiplied out.
                    let together = u128::from(replicas) * u128::from(share.rate) * u128::from(whole.period);
                    let allowed = u128::from(whole.rate) * u128::from(share.period);
                    assert!(together <= allowed, "{replicas} of {share:?} are more than {whole:?}");
                    // Equal to a quota built from these numbers.
                    let built = Quota::new(algorithm, share.rate.into(), share.parts().period).unwrap();
                    assert_eq!((share.unit, share.refill, share.narrow), (built.unit, built.refill, built.narrow));
                    assert_eq!(share, built);
                }
            }
        }
    }

    #[test]
    fn share_divides_every_number() {
        let share = |quota: Quota, replicas| {
            let share = quota.share(NonZeroU32::new(replicas).unwrap());
            (share.rate, share.parts().period, share.capacity, share.max_debt)
        };
        let whole = Quota::token_bucket(10, minutes(1)).unwrap().capacity(20).unwrap().max_debt(5).unwrap();
        assert_eq!(share(whole, 1), (10, minutes(1), 20, Some(5)));
        assert_eq!(share(whole, 3), (3, minutes(1), 6, Some(1)));
        assert_eq!(share(whole, 15), (1, minutes(2), 1, Some(0)));
        let yearly = Quota::sliding_window(1, days(100)).unwrap().buckets(5).unwrap();
        assert_eq!(share(yearly, 50), (1, days(300), 1, None));
        let leases = Quota::concurrency(10, minutes(1)).unwrap();
        assert_eq!(share(leases, 3), (3, minutes(1), 3, None));
        assert_eq!(share(leases, 15), (1, minutes(1), 1, None));
    }
}
