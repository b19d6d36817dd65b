//! Envoy's rate limit requests, whichever way they come.

mod decide;
mod hits;
pub(crate) mod json;
mod limits;

pub(crate) use decide::{Code, Status, Verdict, decide};
pub(crate) use hits::Hits;
pub(crate) use limits::{Limits, decide_served};

use tidegate::config::envoy::Override;

/// One descriptor of a request.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) entries: Vec<(&'a str, &'a str)>,
    pub(crate) limit: Option<Override>,
    pub(crate) hits: Hits,
}

/// A request that cannot be decided as it is.
pub(crate) const NO_DOMAIN: &str = "rate limit domain must not be empty";
pub(crate) const NO_DESCRIPTORS: &str = "rate limit descriptor list must not be empty";
