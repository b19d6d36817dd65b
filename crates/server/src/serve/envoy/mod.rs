//! Envoy's rate limit requests, whichever way they come.

mod decide;
mod hits;
pub(crate) mod json;
mod limits;

pub(crate) use decide::{Code, Status, Verdict, decide};
pub(crate) use hits::Hits;
pub(crate) use limits::{Limits, decide_served};

use tidegate::config::envoy::Override;

use crate::json::MAX_KEY;

/// One descriptor of a request.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) entries: Vec<(&'a str, &'a str)>,
    pub(crate) limit: Option<Override>,
    pub(crate) hits: Hits,
}

impl Asked<'_> {
    /// Whether what it is counted under would be more than a key may be.
    pub(crate) fn is_too_long(&self) -> bool {
        self.entries.iter().map(|(key, value)| key.len() + value.len() + 2).sum::<usize>() > MAX_KEY
    }
}

/// A request that cannot be decided as it is.
pub(crate) const NO_DOMAIN: &str = "rate limit domain must not be empty";
pub(crate) const NO_DESCRIPTORS: &str = "rate limit descriptor list must not be empty";
pub(crate) const TOO_LONG: &str = "the entries of a descriptor must not have more than 4096 bytes";
