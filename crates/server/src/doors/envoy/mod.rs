//! Envoy's rate limit requests, shared by gRPC, HTTP and `simulate`: descriptors, hits and limits.

mod decide;
pub(crate) mod json;

pub(crate) use decide::{Code, DescriptorStatus, Verdict, decide};
use tidegate::api::MAX_BATCH_LEN;
use tidegate::config::envoy::Override;
use tidegate::{Decision, Error, JointDecision, Key};

use crate::app::App;
use crate::request::DecisionRequest;

/// A descriptor of a request.
#[derive(Debug)]
pub(crate) struct DescriptorRequest<'a> {
    pub(crate) entries: Vec<(&'a str, &'a str)>,
    pub(crate) limit: Option<Override>,
    pub(crate) hits: Hits,
}

impl DescriptorRequest<'_> {
    /// Returns the key of all its values.
    fn key(&self) -> Key<'_> {
        match &*self.entries {
            [(_, only)] => Key::from(*only),
            several => Key::from_parts(several.iter().map(|(_, value)| *value)),
        }
    }
}

/// Checks the domain and the number of descriptors. The number is bounded because a joint decision makes others wait.
pub(crate) fn check_descriptor_count(domain: &str, descriptors: usize) -> Result<(), &'static str> {
    match descriptors {
        _ if domain.is_empty() => Err("rate limit domain must not be empty"),
        0 => Err("rate limit descriptor list must not be empty"),
        1..=MAX_BATCH_LEN => Ok(()),
        _ => Err("rate limit descriptor list must not have more than 1000"),
    }
}

/// The operation of a descriptor: to take, check or refund hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hits {
    /// Takes that many.
    Take(u64),
    /// Checks, and takes nothing.
    Check,
    /// Refunds that many.
    Refund(u64),
}

impl Hits {
    /// The descriptor's own hits take precedence over the request's. In the request, 0 means unset, which is 1.
    pub(crate) fn new(own: Option<u64>, negative: bool, request: u32) -> Self {
        match own.unwrap_or(u64::from(request.max(1))) {
            0 => Hits::Check,
            hits if negative => Hits::Refund(hits),
            hits => Hits::Take(hits),
        }
    }
}

/// Decides the requests of descriptors: the app, or a replay.
pub(crate) trait LimitDecider {
    /// Decides about one request.
    async fn decide(&self, request: &DecisionRequest<'_>) -> Result<Decision, Error>;

    /// Takes all or nothing.
    async fn decide_jointly(&self, requests: &[DecisionRequest<'_>]) -> Result<JointDecision, Error>;

    /// Records the decision of a rule of 0 requests, which has no limit to decide it.
    fn record(&self, request: &DecisionRequest<'_>, decision: Decision);
}

impl LimitDecider for App {
    async fn decide(&self, request: &DecisionRequest<'_>) -> Result<Decision, Error> {
        App::decide(self, request).await
    }

    async fn decide_jointly(&self, requests: &[DecisionRequest<'_>]) -> Result<JointDecision, Error> {
        App::decide_jointly(self, requests).await
    }

    fn record(&self, request: &DecisionRequest<'_>, decision: Decision) {
        self.stats.record(request, &Ok(decision));
    }
}

/// How often a request is decided again because a reload has removed a limit meanwhile.
const MAX_DECIDE_ATTEMPTS: usize = 10;

/// Decides by the rules of the active config.
pub(crate) async fn decide_active(
    app: &App,
    domain: &str,
    descriptors: &[DescriptorRequest<'_>],
) -> Result<Verdict, Error> {
    for _ in 1..MAX_DECIDE_ATTEMPTS {
        let config = app.config.load_full();
        match decide(app, &config.domains, domain, descriptors).await {
            // A reload replaces the limits first and the rules then: in between, a rule's limit may be gone.
            Err(Error::UnknownLimit(_)) => app.wait_for_activation().await,
            result => return result,
        }
    }
    decide(app, &app.config.load_full().domains, domain, descriptors).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_of_a_descriptor_take_precedence_and_its_0_is_a_check() {
        for (own, negative, request, hits) in [
            (None, false, 0, Hits::Take(1)),
            (None, false, 3, Hits::Take(3)),
            (Some(2), false, 3, Hits::Take(2)),
            (Some(0), false, 3, Hits::Check),
            (Some(0), true, 3, Hits::Check),
            (Some(2), true, 3, Hits::Refund(2)),
            (None, true, 3, Hits::Refund(3)),
        ] {
            assert_eq!(Hits::new(own, negative, request), hits, "{own:?} {negative} {request}");
        }
    }
}
