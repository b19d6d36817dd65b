//! Envoy's rate limit requests, whichever way they come.

mod decide;
mod hits;
pub(crate) mod json;
mod limits;
mod rule;

pub(crate) use decide::{Code, Status, Verdict, decide};
pub(crate) use hits::Hits;
pub(crate) use limits::{Limits, decide_served};

use tidegate::Key;
use tidegate::config::envoy::Override;

use crate::json::MOST;

/// One descriptor of a request.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) entries: Vec<(&'a str, &'a str)>,
    pub(crate) limit: Option<Override>,
    pub(crate) hits: Hits,
}

impl Asked<'_> {
    /// All that it says of who asks.
    fn key(&self) -> Key<'_> {
        match &*self.entries {
            [(_, only)] => Key::from(*only),
            several => Key::from_parts(several.iter().map(|(_, value)| *value)),
        }
    }
}

/// Whether a request can be decided as it is, or what is wrong with it. Several limits are taken at once or not at all, so a
/// request may not be about as many as it likes: others wait meanwhile.
pub(crate) fn check(domain: &str, descriptors: usize) -> Result<(), &'static str> {
    match descriptors {
        _ if domain.is_empty() => Err("rate limit domain must not be empty"),
        0 => Err("rate limit descriptor list must not be empty"),
        1..=MOST => Ok(()),
        _ => Err("rate limit descriptor list must not have more than 1000"),
    }
}
