//! A trace of Envoy's rate limit requests.

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::time::Duration;

use serde::Deserialize;
use tidegate::config::envoy::Domains;
use tidegate::{All, Decision, Error, Limiter};

use super::event::{Wrong, read};
use super::tally::Tally;
use crate::json::{Millis, Reply};
use crate::serve::envoy::json::{self, Descriptor};
use crate::serve::envoy::{self, Asked, Code, Limits, Status, Verdict};
use crate::serve::gate::{Ask, counted};

const EXAMPLE: &str = r#"{"at_ms":0,"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/login"}]}]}"#;

/// What one line of such a trace asks: Envoy's request, and when.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct Event<'a> {
    pub(super) at_ms: Millis,
    #[serde(borrow, default)]
    pub(super) domain: Cow<'a, str>,
    #[serde(borrow, default)]
    descriptors: Vec<Descriptor<'a>>,
    #[serde(default, alias = "hitsAddend", deserialize_with = "json::whole")]
    hits_addend: Option<u32>,
}

impl<'a> Event<'a> {
    /// Reads a line; or says what is wrong with it.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, Wrong> {
        read(line, EXAMPLE)
    }

    /// The descriptors, as they are decided about.
    pub(super) fn asked(&self) -> Result<Vec<Asked<'_>>, Wrong> {
        json::asked(&self.domain, &self.descriptors, self.hits_addend).map_err(|why| (None, why.to_owned()))
    }
}

/// The limits of a replay, which are counted as they are asked.
pub(super) struct Replayed<'a> {
    limiter: &'a Limiter,
    tally: RefCell<&'a mut Tally>,
}

impl<'a> Replayed<'a> {
    pub(super) fn new(limiter: &'a Limiter, tally: &'a mut Tally) -> Self {
        Replayed { limiter, tally: RefCell::new(tally) }
    }

    fn count(&self, ask: &Ask<'_>, decision: &Decision) {
        self.tally.borrow_mut().count(ask.limit, ask.op, decision);
    }
}

impl Limits for Replayed<'_> {
    async fn ask(&self, ask: &Ask<'_>) -> Result<Decision, Error> {
        let decision = ask.to(self.limiter).await?;
        self.count(ask, &decision);
        Ok(decision)
    }

    async fn all(&self, asks: &[Ask<'_>]) -> Result<All, Error> {
        let all = self.limiter.all(asks.iter().map(|ask| ask.to(self.limiter))).await?;
        counted(asks, &all).for_each(|(ask, decision)| self.count(ask, decision));
        Ok(all)
    }

    fn decided(&self, ask: &Ask<'_>, decision: Decision) {
        self.count(ask, &decision);
    }
}

/// What becomes of a request, as a decision.
pub(super) async fn decide(
    limits: &Replayed<'_>,
    domains: &Domains,
    domain: &str,
    asked: &[Asked<'_>],
) -> Result<Reply, Error> {
    Ok(reply(&envoy::decide(limits, domains, domain, asked).await?))
}

/// The decision that binds: the one that holds a request back longest, and when it passes, the one that leaves least.
fn reply(verdict: &Verdict) -> Reply {
    let met = verdict.statuses.iter().filter(|status| status.limit.is_some() && status.code == verdict.code);
    let binding = match verdict.code {
        // Of equals, the first.
        Code::Ok => met.min_by_key(|status| status.remaining),
        Code::OverLimit => met.min_by_key(|status| Reverse(holds_back(status))),
    };
    match binding.map(|status| &status.decision) {
        None => Reply::unlimited(),
        Some(Some(decision)) => Reply::from(decision),
        Some(None) => Reply::of_nothing(),
    }
}

/// How long a status holds a request back; for ever without a time.
fn holds_back(status: &Status) -> Duration {
    status.decision.and_then(|decision| decision.retry_after()).unwrap_or(Duration::MAX)
}
