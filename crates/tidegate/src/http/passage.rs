//! A request that a gate has let in.

use http::{Extensions, HeaderMap, StatusCode};

use super::Asking;
use super::in_flight::{Held, InFlight};
use crate::enforce::Outcome;

/// A request that a [`Gate`](super::Gate) has let in, while its service works on it. Dropped, it was
/// given up, as by a client that hung up.
#[derive(Debug)]
#[must_use = "a passage that is dropped is no longer in flight"]
pub struct Passage {
    /// None for a request that was left alone.
    asked: Option<(Asking, Outcome)>,
    /// None without guards.
    held: Option<Held>,
}

impl Passage {
    pub(super) fn unasked() -> Self {
        Passage { asked: None, held: None }
    }

    pub(super) fn new(asking: Asking, outcome: Outcome, held: Option<Held>) -> Self {
        Passage { asked: Some((asking, outcome)), held }
    }

    /// What was decided, for a handler that [wants to know](super::RateLimit::extension).
    pub fn told(&self) -> Option<&Outcome> {
        self.asked.as_ref().filter(|(asking, _)| asking.rate_limit().wants_extension()).map(|(_, outcome)| outcome)
    }

    /// The same, put where the handlers of most frameworks find it.
    pub fn tell_handler(&self, extensions: &mut Extensions) {
        if let Some(outcome) = self.told() {
            extensions.insert(outcome.clone());
        }
    }

    /// Charges for a request whose response is known, where the charge has waited for it, and writes into its headers what
    /// is to be said. `length` is how long the body is, where that is known and the headers do not say it. What comes back
    /// is kept with the body.
    pub async fn conclude(mut self, status: StatusCode, headers: &mut HeaderMap, length: Option<u64>) -> InFlight {
        if let Some((asking, mut outcome)) = self.asked.take() {
            if asking.is_charged(status, headers) {
                outcome = asking.charge().await;
            }
            asking.rate_limit().write_headers(&outcome, headers);
        }
        InFlight::begin(self.held.take(), status, headers, length)
    }
}
