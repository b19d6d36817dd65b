//! The limits that are served.

use serde::Serialize;

use crate::Limit;

/// The limits that are served.
#[derive(Debug, Serialize)]
pub struct Limits {
    limits: Vec<Numbers>,
}

#[derive(Debug, Serialize)]
struct Numbers {
    name: String,
    algorithm: &'static str,
    rate: u32,
    period_us: u64,
    capacity: u32,
    shadow: bool,
}

impl FromIterator<(String, Limit)> for Limits {
    fn from_iter<I: IntoIterator<Item = (String, Limit)>>(limits: I) -> Self {
        let numbers = |(name, limit): (String, Limit)| {
            let quota = limit.quota().parts();
            Numbers {
                name,
                algorithm: quota.algorithm.as_str(),
                rate: quota.rate,
                period_us: quota.period.as_micros() as u64,
                capacity: quota.capacity,
                shadow: limit.is_shadow(),
            }
        };
        Limits { limits: limits.into_iter().map(numbers).collect() }
    }
}
