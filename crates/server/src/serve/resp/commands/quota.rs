//! The quota that comes with a command.

use tidegate::{Quota, QuotaError, seconds};

use crate::serve::resp::refusal::Refusal;

/// The numbers of a quota, as a command brings them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) capacity: u64,
    pub(crate) rate: u64,
    pub(crate) seconds: u64,
}

impl Numbers {
    fn quota(self) -> Result<Quota, QuotaError> {
        Quota::token_bucket(self.rate, seconds(self.seconds))?.capacity(self.capacity)
    }
}

/// The quota that came last. Most clients bring the same one each time, and to build it takes longer than to use it.
#[derive(Debug, Default)]
pub(crate) struct LastQuota(Option<(Numbers, Quota)>);

impl LastQuota {
    /// The quota of these numbers.
    #[inline]
    pub(crate) fn of(&mut self, numbers: Numbers) -> Result<Quota, Refusal> {
        match &self.0 {
            Some((last, quota)) if *last == numbers => Ok(*quota),
            _ => self.build(numbers),
        }
    }

    fn build(&mut self, numbers: Numbers) -> Result<Quota, Refusal> {
        let quota = numbers.quota().map_err(refusal)?;
        self.0 = Some((numbers, quota));
        Ok(quota)
    }
}

/// In the command's own words.
fn refusal(error: QuotaError) -> Refusal {
    let what = match error.field() {
        "rate" => "count_per_period is not from 1 to 4294967295",
        "period" => "period is not from 1 second to 366 days",
        _ => "max_burst is out of range: the most that can be had at once is from 1 to 4294967295",
    };
    Refusal::new(format!("ERR {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_numbers_are_another_quota() {
        let mut quotas = LastQuota::default();
        for (capacity, rate, seconds) in [(1, 2, 3), (1, 2, 3), (9, 2, 3), (9, 8, 3), (9, 8, 7), (1, 2, 3)] {
            let quota = quotas.of(Numbers { capacity, rate, seconds }).unwrap().parts();
            let found = (u64::from(quota.capacity), u64::from(quota.rate), quota.period.as_secs());
            assert_eq!(found, (capacity, rate, seconds));
        }
        // One that is wrong is not remembered.
        assert!(quotas.of(Numbers { capacity: 0, rate: 1, seconds: 1 }).is_err());
        assert!(quotas.of(Numbers { capacity: 0, rate: 1, seconds: 1 }).is_err());
    }
}
