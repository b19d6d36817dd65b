//! Replays a trace of Envoy's rate limit requests.

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::time::Duration;

use serde::Deserialize;
use tidegate::api::{DecisionResponse, TimestampField};
use tidegate::config::envoy::Domains;
use tidegate::{Decision, Error, JointDecision, Limiter};

use super::summary::Summary;
use super::trace::{LineError, parse_line};
use crate::doors::envoy::json::{self, JsonDescriptor};
use crate::doors::envoy::{self, Code, DescriptorRequest, DescriptorStatus, LimitDecider, Verdict};
use crate::request::{DecisionRequest, decisive};

const EXAMPLE: &str = r#"{"at_ms":0,"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/login"}]}]}"#;

/// The event on a line: Envoy's request, and its time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct EnvoyEvent<'a> {
    pub(super) at_ms: TimestampField,
    #[serde(borrow, default)]
    pub(super) domain: Cow<'a, str>,
    #[serde(borrow, default)]
    descriptors: Vec<JsonDescriptor<'a>>,
    #[serde(default, alias = "hitsAddend", deserialize_with = "json::deserialize_integer")]
    hits_addend: Option<u32>,
}

impl<'a> EnvoyEvent<'a> {
    /// Parses a line.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, LineError> {
        parse_line(line, EXAMPLE)
    }

    /// Returns the descriptors.
    pub(super) fn descriptors(&self) -> Result<Vec<DescriptorRequest<'_>>, LineError> {
        json::descriptors(&self.domain, &self.descriptors, self.hits_addend).map_err(|why| (None, why.to_owned()))
    }
}

/// Decides the requests of a replay, and counts the decisions.
pub(super) struct ReplayDecider<'a> {
    limiter: &'a Limiter,
    summary: RefCell<&'a mut Summary>,
}

impl<'a> ReplayDecider<'a> {
    pub(super) fn new(limiter: &'a Limiter, summary: &'a mut Summary) -> Self {
        ReplayDecider { limiter, summary: RefCell::new(summary) }
    }

    fn count(&self, request: &DecisionRequest<'_>, decision: &Decision) {
        self.summary.borrow_mut().count(request.limit, request.op, decision);
    }
}

impl LimitDecider for ReplayDecider<'_> {
    async fn decide(&self, request: &DecisionRequest<'_>) -> Result<Decision, Error> {
        let decision = request.call(self.limiter).await?;
        self.count(request, &decision);
        Ok(decision)
    }

    async fn decide_jointly(&self, requests: &[DecisionRequest<'_>]) -> Result<JointDecision, Error> {
        let joint = self.limiter.limit_all(requests.iter().map(|request| request.call(self.limiter))).await?;
        decisive(requests, &joint).for_each(|(request, decision)| self.count(request, decision));
        Ok(joint)
    }

    fn record(&self, request: &DecisionRequest<'_>, decision: Decision) {
        self.count(request, &decision);
    }
}

/// Decides about a request, and returns the verdict as one decision.
pub(super) async fn decide(
    limits: &ReplayDecider<'_>,
    domains: &Domains,
    domain: &str,
    descriptors: &[DescriptorRequest<'_>],
) -> Result<DecisionResponse, Error> {
    Ok(decision_response(&envoy::decide(limits, domains, domain, descriptors).await?))
}

/// Returns the binding decision: the longest wait of a denied request, or the smallest remainder of an allowed one.
fn decision_response(verdict: &Verdict) -> DecisionResponse {
    let met = verdict.statuses.iter().filter(|status| status.limit.is_some() && status.code == verdict.code);
    let binding = match verdict.code {
        // The first of equals.
        Code::Ok => met.min_by_key(|status| status.remaining),
        Code::OverLimit => met.min_by_key(|status| Reverse(wait_time(status))),
    };
    match binding.map(|status| &status.decision) {
        None => DecisionResponse::unlimited(),
        Some(Some(decision)) => DecisionResponse::from(decision),
        Some(None) => DecisionResponse::undecided(),
    }
}

/// Returns the time that a request must wait, or forever without a retry time.
fn wait_time(status: &DescriptorStatus) -> Duration {
    status.decision.and_then(|decision| decision.retry_after()).unwrap_or(Duration::MAX)
}
