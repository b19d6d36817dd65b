//! Places of limits on how many are in flight: asked for, held on to, given back.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tidegate::concurrency::Work;
use tidegate::{Decision, Key, Lease};

use super::body;
use super::decide::checked;
use super::problem::Problem;
use crate::json::{self, Op, Reply};
use crate::serve::gate::{Ask, Gate};
use crate::serve::watch::recorder;

const PLACE: &str = r#"{"limit":"work","key":"t1"}"#;
const HELD: &str = r#"{"lease":"9d2c41b07a5e63f8.4.workt1"}"#;

/// Whose place is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Place<'a> {
    #[serde(borrow)]
    limit: Cow<'a, str>,
    #[serde(borrow)]
    key: json::Key<'a>,
}

/// A decision with the lease, as long as there is one.
#[derive(Serialize)]
struct Admitted {
    #[serde(flatten)]
    decision: Reply,
    lease: Option<String>,
    expires_in_ms: Option<u64>,
}

/// Asks for a place.
pub(super) async fn admit(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::ONE).await?;
    let place: Place<'_> = body::parse(&body, PLACE)?;
    let (limit, key) = (&*place.limit, checked(&place.key)?);
    let lease = gate.limiter.admit(limit, &key).asked_for();
    let decision = ask(&gate, Op::Admit(lease), limit, key.borrow()).await?;
    let is_held = is_the_stores(&decision);
    let held = is_held.then(|| Held { lease, limit: limit.into(), key: key.to_text() }.to_string());
    let expires_in_ms = if is_held { lifetime(&gate, limit) } else { None };
    Ok(body::answer(&Admitted { decision: Reply::from(&decision), lease: held, expires_in_ms }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Renewed<'a> {
    #[serde(borrow)]
    lease: Cow<'a, str>,
}

#[derive(Serialize)]
struct Kept {
    #[serde(flatten)]
    decision: Reply,
    expires_in_ms: Option<u64>,
}

/// Holds on to a place.
pub(super) async fn renew(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::ONE).await?;
    let Renewed { lease } = body::parse(&body, HELD)?;
    let (held, key) = Held::read(&lease)?;
    let decision = ask(&gate, Op::Renew(held.lease), &held.limit, key).await?;
    let expires_in_ms = if is_the_stores(&decision) { lifetime(&gate, &held.limit) } else { None };
    Ok(body::answer(&Kept { decision: Reply::from(&decision), expires_in_ms }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Released<'a> {
    #[serde(borrow)]
    lease: Cow<'a, str>,
    /// How the work ended.
    #[serde(borrow)]
    outcome: Option<Cow<'a, str>>,
}

/// Gives a place back.
pub(super) async fn release(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::ONE).await?;
    let Released { lease, outcome } = body::parse(&body, HELD)?;
    let ((held, key), work) = (Held::read(&lease)?, work(outcome.as_deref())?);
    let decision = ask(&gate, Op::Release(held.lease), &held.limit, key).await?;
    if is_the_stores(&decision) {
        recorder::released(&held.limit, work);
    }
    Ok(body::answer_text(Reply::from(&decision).to_json()))
}

fn work(outcome: Option<&str>) -> Result<Work, Problem> {
    let Some(outcome) = outcome else { return Ok(Work::Ignore) };
    let known = Work::ALL.into_iter().find(|work| work.as_str() == outcome);
    known.ok_or_else(|| Problem::bad_request(format!("outcome: found {outcome:?}, expected done, dropped or ignore")))
}

async fn ask(gate: &Gate, op: Op, limit: &str, key: Key<'_>) -> Result<Decision, Problem> {
    let ask = Ask { op, limit, key, cost: 1, quota: None };
    gate.ask(&ask).await.map_err(|error| Problem::from(&error))
}

/// Whether it is a yes of the store's own, so that something was done. It is not when the store was broken or a limit in
/// shadow mode would have denied it.
fn is_the_stores(decision: &Decision) -> bool {
    decision.allowed() && decision.reason().is_none()
}

/// How long a lease lasts. Rounded down, unlike other times: nobody should believe in it for too long.
fn lifetime(gate: &Gate, limit: &str) -> Option<u64> {
    let quota = gate.limiter.quota(limit).ok()?;
    u64::try_from(quota.parts().period.as_millis()).ok()
}

/// A lease as clients know it: with the limit and the key that it belongs to, so that they need not be said again and any
/// server of the fleet can take it.
#[derive(Debug, PartialEq)]
struct Held<'a> {
    lease: Lease,
    limit: Cow<'a, str>,
    /// As its text.
    key: Cow<'a, str>,
}

impl fmt::Display for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { lease, limit, key } = self;
        write!(f, "{lease}.{}.{limit}{key}", limit.len())
    }
}

impl<'a> Held<'a> {
    fn read(text: &'a str) -> Result<(Self, Key<'static>), Problem> {
        // A part of 4 KiB is at most three times as long when it is escaped.
        let held = Held::parse(text).filter(|held| held.key.len() <= 3 * json::MAX_KEY);
        let Some((key, held)) = held.and_then(|held| Some((Key::from_text(&held.key)?, held))) else {
            return Err(Problem::bad_request("lease: expected what /v1/admit has answered as `lease`"));
        };
        Ok((held, key))
    }

    fn parse(text: &'a str) -> Option<Self> {
        let (lease, rest) = text.split_once('.')?;
        let (length, rest) = rest.split_once('.')?;
        let (limit, key) = rest.split_at_checked(length.parse().ok()?)?;
        Some(Held { lease: lease.parse().ok()?, limit: limit.into(), key: key.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_tells_its_limit_and_its_key() {
        for (limit, key) in [("work", "t1"), ("w.1.2", "%7c|a.b"), ("\u{e9}", ""), ("a", "4.b")] {
            let held = Held { lease: Lease::from_bits(u64::MAX / 3), limit: limit.into(), key: key.into() };
            assert_eq!(Held::parse(&held.to_string()), Some(held));
        }
        for broken in ["", "5", "5555555555555555", "5555555555555555.4", "5555555555555555.9.work", "x.1.a", ".1.a"] {
            assert_eq!(Held::parse(broken), None, "{broken:?}");
        }
        assert_eq!(Held::parse("5555555555555555.1.\u{e9}"), None, "in the middle of a letter");
    }
}
