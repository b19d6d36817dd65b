//! What is known of one descriptor.

use tidegate::config::envoy::{Found, Limited};
use tidegate::{Decision, DecisionParts, Key, Reason};

use super::decide::{Code, Current, Status};
use super::{Asked, Hits};
use crate::json::Op;
use crate::serve::gate::Ask;

/// What is known of one descriptor.
pub(super) struct Rule<'a> {
    found: &'a Found<'a>,
    hits: Hits,
    /// Everything that the descriptor says: in the key that it is counted under there may be less.
    whole_key: &'a Key<'a>,
    /// What was decided about it, so far.
    pub(super) decision: Option<Decision>,
}

impl<'a> Rule<'a> {
    pub(super) fn new(found: &'a Found<'a>, asked: &Asked<'_>, whole_key: &'a Key<'a>) -> Self {
        let hits = asked.hits;
        let decision = match (found, hits) {
            (Found::Limited(limited), Hits::Take(_) | Hits::Look) if limited.always_over() => Some(too_much(limited)),
            _ => None,
        };
        Rule { found, hits, whole_key, decision }
    }

    fn limited(&self) -> Option<&'a Limited<'a>> {
        match self.found {
            Found::Limited(limited) => Some(limited),
            _ => None,
        }
    }

    fn question(&self, limited: &'a Limited<'a>, op: Op, cost: u64) -> Ask<'a> {
        let (limit, key, quota) = (limited.limit, limited.key.borrow(), limited.quota.as_ref());
        Ask { op, limit, key, cost, quota, whole_key: Some(self.whole_key) }
    }

    /// The question to the limit that it meets; none when there is none, or none of 0 requests.
    fn ask(&self, op: Op, cost: u64) -> Option<Ask<'a>> {
        self.limited().filter(|limited| !limited.always_over()).map(|limited| self.question(limited, op, cost))
    }

    pub(super) fn looks(&self) -> Option<Ask<'a>> {
        // Whether the next request would pass: nothing at all is never too much.
        if self.hits == Hits::Look { self.ask(Op::Check, 1) } else { None }
    }

    pub(super) fn takes(&self) -> Option<Ask<'a>> {
        if let Hits::Take(hits) = self.hits { self.ask(Op::Limit, hits) } else { None }
    }

    pub(super) fn gives_back(&self) -> Option<Ask<'a>> {
        if let Hits::GiveBack(hits) = self.hits { self.ask(Op::Refund, hits) } else { None }
    }

    /// What a rule of 0 requests has decided about what was to be taken, and what was not asked for that.
    pub(super) fn decided_unasked(&self) -> Option<(Ask<'a>, Decision)> {
        let limited = self.limited().filter(|limited| limited.always_over())?;
        let Hits::Take(hits) = self.hits else { return None };
        Some((self.question(limited, Op::Limit, hits), self.decision?))
    }

    /// Whether it is still to be taken.
    pub(super) fn is_open(&self) -> bool {
        self.decision.is_none() && self.takes().is_some()
    }

    pub(super) fn is_quota_mode(&self) -> bool {
        self.limited().is_some_and(|limited| limited.quota_mode)
    }

    /// Whether it is on a deny list, which no other rule makes up for.
    pub(super) fn is_denied(&self) -> bool {
        self.decision.is_some_and(|decision| !decision.allowed() && decision.reason() == Some(Reason::Deny))
    }

    pub(super) fn code(&self) -> Code {
        match self.decision {
            Some(decision) if !decision.allowed() => Code::OverLimit,
            _ => Code::Ok,
        }
    }

    pub(super) fn status(&self) -> Status {
        let Some(limited) = self.limited() else {
            let remaining = if *self.found == Found::Unlimited { u32::MAX } else { 0 };
            return Status { code: Code::Ok, limit: None, remaining, decision: None };
        };
        let Limited { name, requests_per_unit, unit, .. } = *limited;
        let limit = Some(Current { name: name.to_owned(), requests_per_unit, unit });
        let remaining = self.decision.map_or(0, |decision| u32::try_from(decision.remaining()).unwrap_or(u32::MAX));
        Status { code: self.code(), limit, remaining, decision: self.decision }
    }
}

/// What a rule of 0 requests says, without a limit to ask: there is never as much.
fn too_much(limited: &Limited<'_>) -> Decision {
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
