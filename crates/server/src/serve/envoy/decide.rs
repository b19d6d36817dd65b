//! What becomes of a request.

use std::time::Duration;

use sha2::{Digest, Sha256};
use tidegate::config::envoy::{Descriptor, Domains, Found, Unit};
use tidegate::{Decision, Error, Key};

use super::rule::Rule;
use super::{Asked, Limits};
use crate::json::{MAX_KEY, Op};
use crate::serve::gate::Ask;

/// What becomes of a request.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) code: Code,
    /// One for each descriptor, in order.
    pub(crate) statuses: Vec<Status>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Ok,
    OverLimit,
}

/// What becomes of one descriptor.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) code: Code,
    pub(crate) limit: Option<Current>,
    pub(crate) remaining: u32,
    /// What the rule said; none when it was not asked for anything.
    pub(crate) decision: Option<Decision>,
}

impl Status {
    /// How long until the limit is as good as new; a rule of 0 requests has none.
    pub(crate) fn until_reset(&self) -> Option<Duration> {
        self.decision.filter(|decision| decision.limit() > 0).map(|decision| decision.reset_after())
    }
}

/// The limit that a descriptor met.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) name: String,
    pub(crate) requests_per_unit: u32,
    pub(crate) unit: Unit,
}

/// Decides about a request to one of the domains: its descriptors are taken all or nothing.
///
/// Rules in quota mode hold a request back only when all of them are over: as long as one is not, those that are are left
/// out, and the others are taken.
pub(crate) async fn decide(
    limits: &impl Limits,
    domains: &Domains,
    domain: &str,
    asked: &[Asked<'_>],
) -> Result<Verdict, Error> {
    let descriptors: Vec<_> =
        asked.iter().map(|asked| Descriptor { entries: &asked.entries, limit: asked.limit }).collect();
    let mut found = domains.find_all(domain, &descriptors);
    found.iter_mut().for_each(shorten);
    let whole_keys: Vec<_> = asked.iter().map(Asked::key).collect();
    let asked = asked.iter().zip(&whole_keys);
    let mut rules: Vec<_> = found.iter().zip(asked).map(|(found, (asked, key))| Rule::new(found, asked, key)).collect();

    // First those that change nothing, for which they would have to be undone otherwise.
    for rule in &mut rules {
        if let Some(look) = rule.looks() {
            rule.decision = Some(limits.ask(&look).await?);
        }
    }
    take(limits, &mut rules).await?;
    let code = overall(&rules);
    for (ask, decision) in rules.iter().filter_map(Rule::decided_unasked) {
        // In shadow mode it counts where the request passes, as a limit does.
        if code == Code::Ok || !decision.allowed() {
            limits.decided(&ask, decision);
        }
    }
    if code == Code::Ok {
        for rule in &mut rules {
            if let Some(refund) = rule.gives_back() {
                // What was taken stays taken: to fail now would have it asked for again.
                rule.decision = limits.ask(&refund).await.ok();
            }
        }
    }
    Ok(Verdict { code, statuses: rules.iter().map(Rule::status).collect() })
}

/// Counts what is more than a key may be under its digest. Clients write what is in descriptors, and Envoy admits what it has no answer
/// for: were it refused, a long path or header would be a way past every limit of the request.
fn shorten(found: &mut Found<'_>) {
    let Found::Limited(limited) = found else { return };
    if limited.key.as_raw().1.len() > MAX_KEY {
        let digest = Sha256::digest(limited.key.to_text().as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        limited.key = Key::from(digest).set_apart();
    }
}

/// Takes what is to be taken, all or nothing.
async fn take(limits: &impl Limits, rules: &mut [Rule<'_>]) -> Result<(), Error> {
    loop {
        // Whoever is over already holds back the others: they are only looked at.
        let passes = overall(rules) == Code::Ok;
        let taking: Vec<usize> = (0..rules.len()).filter(|index| rules[*index].is_open()).collect();
        let asks: Vec<_> = taking.iter().filter_map(|index| rules[*index].takes()).collect();
        let decisions = match &*asks {
            [] => return Ok(()),
            asks if !passes => {
                let mut looks = Vec::with_capacity(asks.len());
                for ask in asks {
                    looks.push(limits.ask(&Ask { op: Op::Check, ..ask.clone() }).await?);
                }
                looks
            }
            [ask] => vec![limits.ask(ask).await?],
            several => limits.all(several).await?.into_decisions(),
        };
        drop(asks);
        let taken = decisions.iter().all(Decision::allowed);
        for (index, decision) in taking.iter().zip(&decisions).filter(|(_, decision)| !decision.allowed()) {
            rules[*index].decision = Some(*decision);
        }
        // Unless only rules in quota mode are in the way: then the others are asked again, without those.
        if taken || !passes || overall(rules) == Code::OverLimit {
            for (index, decision) in taking.into_iter().zip(decisions) {
                rules[index].decision = Some(decision);
            }
            return Ok(());
        }
    }
}

/// Whether a request passes, by what is known so far.
fn overall(rules: &[Rule<'_>]) -> Code {
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
