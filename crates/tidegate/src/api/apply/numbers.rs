//! A quota, as JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::{Algorithm, Quota, QuotaError};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct Numbers {
    algorithm: String,
    rate: u64,
    period_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_debt: Option<u64>,
}

impl Numbers {
    /// The numbers of a quota: those only that its algorithm uses.
    pub(super) fn of(quota: &Quota) -> Self {
        let parts = quota.parts();
        let is = |algorithms: &[Algorithm]| algorithms.contains(&parts.algorithm);
        let has_capacity = is(&[Algorithm::TokenBucket, Algorithm::FixedWindow]);
        let has_start = is(&[Algorithm::FixedWindow, Algorithm::SlidingWindow]);
        Numbers {
            algorithm: parts.algorithm.as_str().to_owned(),
            rate: parts.rate.into(),
            period_us: parts.period.as_micros() as u64,
            capacity: has_capacity.then_some(parts.capacity.into()),
            start_us: has_start.then_some(parts.start.as_micros() as u64),
            buckets: is(&[Algorithm::SlidingWindow]).then_some(parts.buckets.into()),
            max_debt: parts.max_debt.map(u64::from),
        }
    }

    /// The quota, or what is wrong with it.
    pub(super) fn quota(&self) -> Result<Quota, QuotaError> {
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == self.algorithm);
        let algorithm = algorithm.ok_or_else(|| {
            let expected = format!("one of {}", Algorithm::ALL.map(|algorithm| algorithm.as_str()).join(", "));
            QuotaError::new("algorithm", format!("{:?}", self.algorithm), expected)
        })?;
        let mut quota = Quota::new(algorithm, self.rate, Duration::from_micros(self.period_us))?;
        if let Some(capacity) = self.capacity {
            quota = quota.capacity(capacity)?;
        }
        if let Some(start) = self.start_us {
            quota = quota.start(Duration::from_micros(start))?;
        }
        if let Some(buckets) = self.buckets {
            quota = quota.buckets(buckets)?;
        }
        if let Some(max_debt) = self.max_debt {
            quota = quota.max_debt(max_debt)?;
        }
        Ok(quota)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{MAX_COUNT, days, seconds};

    use super::*;

    #[test]
    fn every_quota_comes_through() {
        let quotas = [
            Quota::token_bucket(10, seconds(1)),
            Quota::token_bucket(MAX_COUNT, days(366)).and_then(|quota| quota.capacity(7)?.max_debt(3)),
            Quota::fixed_window(7, seconds(3)).and_then(|quota| quota.capacity(70)?.start(seconds(1))?.max_debt(0)),
            Quota::sliding_window(10, seconds(64)).and_then(|quota| quota.buckets(64)?.start(seconds(2))),
            Quota::sliding_log(10, seconds(1)).and_then(|quota| quota.max_debt(1)),
            Quota::concurrency(10, seconds(30)),
        ];
        for quota in quotas.map(Result::unwrap) {
            let text = serde_json::to_string(&Numbers::of(&quota)).unwrap();
            let read: Numbers = serde_json::from_str(&text).unwrap();
            assert_eq!(read.quota().unwrap(), quota, "{text}");
        }
    }
}
