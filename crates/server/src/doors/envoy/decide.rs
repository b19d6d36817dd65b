//! The verdict on an Envoy request: rules, quota mode, rules of 0 requests, and all-or-nothing.

use std::time::Duration;

use sha2::{Digest, Sha256};
use tidegate::api::{MAX_KEY_BYTES, Op};
use tidegate::config::envoy::{Descriptor, Domains, MatchedLimit, RuleMatch, Unit};
use tidegate::store::DecisionParts;
use tidegate::{Decision, Error, Key, Reason};

use super::{DescriptorRequest, Hits, LimitDecider};
use crate::request::DecisionRequest;

/// The verdict on a request.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) code: Code,
    /// One status for each descriptor, in order.
    pub(crate) statuses: Vec<DescriptorStatus>,
}

/// Whether a request or a descriptor passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Ok,
    OverLimit,
}

/// The status of one descriptor.
#[derive(Debug)]
pub(crate) struct DescriptorStatus {
    pub(crate) code: Code,
    pub(crate) limit: Option<RuleLimit>,
    pub(crate) remaining: u32,
    /// The decision of its rule; `None` if there was nothing to decide.
    pub(crate) decision: Option<Decision>,
}

impl DescriptorStatus {
    /// Returns the time until the quota is full again; `None` for a rule of 0 requests.
    pub(crate) fn until_reset(&self) -> Option<Duration> {
        self.decision.filter(|decision| decision.limit() > 0).map(|decision| decision.reset_after())
    }
}

/// The limit of the rule that a descriptor matches.
#[derive(Debug)]
pub(crate) struct RuleLimit {
    pub(crate) name: String,
    pub(crate) requests_per_unit: u32,
    pub(crate) unit: Unit,
}

/// Decides about a request to one of the domains. Its descriptors are taken all or nothing.
///
/// Rules in quota mode deny a request only if all of them are over their limit. As long as one is not, the exhausted ones are
/// left out, and the others are taken.
pub(crate) async fn decide(
    limits: &impl LimitDecider,
    domains: &Domains,
    domain: &str,
    requested: &[DescriptorRequest<'_>],
) -> Result<Verdict, Error> {
    let descriptors: Vec<_> =
        requested.iter().map(|one| Descriptor { entries: &one.entries, limit: one.limit }).collect();
    let mut found = domains.find_all(domain, &descriptors);
    found.iter_mut().for_each(shorten_key);
    let whole_keys: Vec<_> = requested.iter().map(DescriptorRequest::key).collect();
    let requested = requested.iter().zip(&whole_keys);
    let mut rules: Vec<_> =
        found.iter().zip(requested).map(|(found, (one, key))| Rule::new(found, one.hits, key)).collect();

    // Checks come first: if one fails, nothing has to be undone.
    for rule in &mut rules {
        if let Some(check) = rule.check_request() {
            rule.decision = Some(limits.decide(&check).await?);
        }
    }
    take_open_rules(limits, &mut rules).await?;
    let code = overall_code(&rules);
    for (request, decision) in rules.iter().filter_map(Rule::decided_without_limit) {
        // As with a limit, shadow mode counts only in a request that passes.
        if code == Code::Ok || !decision.allowed() {
            limits.record(&request, decision);
        }
    }
    if code == Code::Ok {
        for rule in &mut rules {
            if let Some(refund) = rule.refund_request() {
                // The other descriptors are taken: an error now would make the client take them again.
                rule.decision = limits.decide(&refund).await.ok();
            }
        }
    }
    Ok(Verdict { code, statuses: rules.iter().map(Rule::status).collect() })
}

/// Replaces a key that is too long by its digest. Descriptors contain client input, and Envoy admits a request without a
/// response: to refuse a long path or header would let it bypass every limit.
fn shorten_key(found: &mut RuleMatch<'_>) {
    let RuleMatch::Limited(limited) = found else { return };
    if limited.key.as_raw().1.len() > MAX_KEY_BYTES {
        let digest = Sha256::digest(limited.key.to_text().as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        limited.key = Key::from(digest).to_reserved();
    }
}

/// Takes all open rules or none.
async fn take_open_rules(limits: &impl LimitDecider, rules: &mut [Rule<'_>]) -> Result<(), Error> {
    loop {
        // One rule that is over already denies the request: the others are only checked.
        let passes = overall_code(rules) == Code::Ok;
        let taking: Vec<usize> = (0..rules.len()).filter(|index| rules[*index].is_open()).collect();
        let requests: Vec<_> = taking.iter().filter_map(|index| rules[*index].limit_request()).collect();
        let decisions = match &*requests {
            [] => return Ok(()),
            requests if !passes => {
                let mut checks = Vec::with_capacity(requests.len());
                for request in requests {
                    checks.push(limits.decide(&DecisionRequest { op: Op::Check, ..request.clone() }).await?);
                }
                checks
            }
            [request] => vec![limits.decide(request).await?],
            several => limits.decide_jointly(several).await?.into_decisions(),
        };
        drop(requests);
        let taken = decisions.iter().all(Decision::allowed);
        for (index, decision) in taking.iter().zip(&decisions).filter(|(_, decision)| !decision.allowed()) {
            rules[*index].decision = Some(*decision);
        }
        // If only rules in quota mode deny, the others are taken again without those.
        if taken || !passes || overall_code(rules) == Code::OverLimit {
            for (index, decision) in taking.into_iter().zip(decisions) {
                rules[index].decision = Some(decision);
            }
            return Ok(());
        }
    }
}

/// Returns the verdict by the decisions so far.
fn overall_code(rules: &[Rule<'_>]) -> Code {
    let (mut quota_mode, mut quota_mode_over) = (0, 0);
    for rule in rules {
        if rule.is_denied() {
            return Code::OverLimit;
        }
        let over = rule.code() == Code::OverLimit;
        if rule.is_quota_mode() {
            quota_mode += 1;
            quota_mode_over += usize::from(over);
        } else if over {
            return Code::OverLimit;
        }
    }
    if quota_mode > 0 && quota_mode_over == quota_mode { Code::OverLimit } else { Code::Ok }
}

/// The rule that a descriptor matches, and its decision so far.
struct Rule<'a> {
    found: &'a RuleMatch<'a>,
    hits: Hits,
    /// The key of all values of the descriptor. The key that it is counted under may be a part of it.
    whole_key: &'a Key<'a>,
    decision: Option<Decision>,
}

impl<'a> Rule<'a> {
    fn new(found: &'a RuleMatch<'a>, hits: Hits, whole_key: &'a Key<'a>) -> Self {
        let decision = match (found, hits) {
            (RuleMatch::Limited(limited), Hits::Take(_) | Hits::Check) if limited.always_over() => {
                Some(always_over(limited))
            }
            _ => None,
        };
        Rule { found, hits, whole_key, decision }
    }

    fn matched_limit(&self) -> Option<&'a MatchedLimit<'a>> {
        match self.found {
            RuleMatch::Limited(limited) => Some(limited),
            _ => None,
        }
    }

    fn request_of(&self, limited: &'a MatchedLimit<'a>, op: Op, cost: u64) -> DecisionRequest<'a> {
        let (limit, key, quota) = (limited.limit, limited.key.borrow(), limited.quota);
        DecisionRequest { op, limit, key, cost, quota, whole_key: Some(self.whole_key) }
    }

    /// Makes a request to the limit of the rule; `None` without a limit, and for a rule of 0 requests.
    fn request(&self, op: Op, cost: u64) -> Option<DecisionRequest<'a>> {
        self.matched_limit().filter(|limited| !limited.always_over()).map(|limited| self.request_of(limited, op, cost))
    }

    fn check_request(&self) -> Option<DecisionRequest<'a>> {
        // Checks cost 1, whether the next request would pass: a cost of 0 always would.
        if self.hits == Hits::Check { self.request(Op::Check, 1) } else { None }
    }

    fn limit_request(&self) -> Option<DecisionRequest<'a>> {
        if let Hits::Take(hits) = self.hits { self.request(Op::Limit, hits) } else { None }
    }

    fn refund_request(&self) -> Option<DecisionRequest<'a>> {
        if let Hits::Refund(hits) = self.hits { self.request(Op::Refund, hits) } else { None }
    }

    /// Returns the request and decision of a rule of 0 requests, if there is something to take.
    fn decided_without_limit(&self) -> Option<(DecisionRequest<'a>, Decision)> {
        let limited = self.matched_limit().filter(|limited| limited.always_over())?;
        let Hits::Take(hits) = self.hits else { return None };
        Some((self.request_of(limited, Op::Limit, hits), self.decision?))
    }

    /// Whether its cost has not been taken yet.
    fn is_open(&self) -> bool {
        self.decision.is_none() && self.limit_request().is_some()
    }

    fn is_quota_mode(&self) -> bool {
        self.matched_limit().is_some_and(|limited| limited.quota_mode)
    }

    /// Returns whether a deny list has its key. A deny list overrules all other rules.
    fn is_denied(&self) -> bool {
        self.decision.is_some_and(|decision| !decision.allowed() && decision.reason() == Some(Reason::Deny))
    }

    fn code(&self) -> Code {
        match self.decision {
            Some(decision) if !decision.allowed() => Code::OverLimit,
            _ => Code::Ok,
        }
    }

    fn status(&self) -> DescriptorStatus {
        let Some(limited) = self.matched_limit() else {
            let remaining = if *self.found == RuleMatch::Unlimited { u32::MAX } else { 0 };
            return DescriptorStatus { code: Code::Ok, limit: None, remaining, decision: None };
        };
        let MatchedLimit { name, requests_per_unit, unit, .. } = *limited;
        let limit = Some(RuleLimit { name: name.to_owned(), requests_per_unit, unit });
        let remaining = self.decision.map_or(0, |decision| u32::try_from(decision.remaining()).unwrap_or(u32::MAX));
        DescriptorStatus { code: self.code(), limit, remaining, decision: self.decision }
    }
}

/// Returns the decision of a rule of 0 requests, which needs no limit.
fn always_over(limited: &MatchedLimit<'_>) -> Decision {
    let denied = Decision::from(DecisionParts {
        allowed: false,
        limit: 0,
        remaining: 0,
        retry_after: None,
        next_after: None,
        reset_after: 0,
        reason: Some(Reason::CostExceedsCapacity),
    });
    if limited.shadow { denied.shadowed() } else { denied }
}
