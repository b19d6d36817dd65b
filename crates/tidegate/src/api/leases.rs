//! Places of limits on how many are in flight: asked for, held on to, given back.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_core::{Decision, Lease, Quota};

use super::{Key, MAX_TEXT, Problem, Reply};
use crate::concurrency::Work;

/// Whose place is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct Place<'a> {
    /// The limit's name.
    #[serde(borrow)]
    pub limit: Cow<'a, str>,
    /// Who is limited.
    #[serde(borrow)]
    pub key: Key<'a>,
}

impl Place<'_> {
    /// What such a question looks like.
    pub const EXAMPLE: &'static str = r#"{"limit":"work","key":"t1"}"#;
}

/// A decision with the lease, as long as there is one.
#[derive(Debug, Serialize)]
pub struct Admitted {
    #[serde(flatten)]
    decision: Reply,
    lease: Option<String>,
    expires_in_ms: Option<u64>,
}

impl Admitted {
    /// What became of a question for a place under this quota.
    pub fn new(decision: &Decision, held: &Held<'_>, quota: Option<&Quota>) -> Self {
        let lease = is_held(decision).then(|| held.to_string());
        Admitted { decision: Reply::from(decision), expires_in_ms: lifetime(decision, quota), lease }
    }
}

/// What is held on to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct Renewed<'a> {
    /// What [`Held`] reads.
    #[serde(borrow)]
    pub lease: Cow<'a, str>,
}

/// A decision about a place that is held on to.
#[derive(Debug, Serialize)]
pub struct Kept {
    #[serde(flatten)]
    decision: Reply,
    expires_in_ms: Option<u64>,
}

impl Kept {
    /// What became of it under this quota.
    pub fn new(decision: &Decision, quota: Option<&Quota>) -> Self {
        Kept { decision: Reply::from(decision), expires_in_ms: lifetime(decision, quota) }
    }
}

/// What is given back.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct Released<'a> {
    /// What [`Held`] reads.
    #[serde(borrow)]
    pub lease: Cow<'a, str>,
    /// How the work ended.
    #[serde(borrow)]
    outcome: Option<Cow<'a, str>>,
}

impl Released<'_> {
    /// How the work ended.
    pub fn work(&self) -> Result<Work, Problem> {
        let Some(outcome) = self.outcome.as_deref() else { return Ok(Work::Ignore) };
        let known = Work::ALL.into_iter().find(|work| work.as_str() == outcome);
        known.ok_or_else(|| {
            Problem::bad_request(format!("outcome: found {outcome:?}, expected done, dropped or ignore"))
        })
    }
}

/// Whether the store has said so itself. A yes for a reason is not the store's: it was broken, or a limit in shadow mode
/// would have denied it.
pub fn is_held(decision: &Decision) -> bool {
    decision.is_ordinary()
}

/// How long a lease lasts, while it is held. Rounded down, unlike other times: nobody should believe in it for too long.
pub fn lifetime(decision: &Decision, quota: Option<&Quota>) -> Option<u64> {
    let quota = quota.filter(|_| is_held(decision))?;
    u64::try_from(quota.parts().period.as_millis()).ok()
}

/// A lease as clients know it: with the limit and the key that it belongs to, so that they need not be said again and any
/// server of the fleet can take it.
#[derive(Debug, PartialEq)]
pub struct Held<'a> {
    /// Its id.
    pub lease: Lease,
    /// The limit's name.
    pub limit: Cow<'a, str>,
    /// The key, as its text.
    pub key: Cow<'a, str>,
}

impl fmt::Display for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { lease, limit, key } = self;
        write!(f, "{lease}.{}.{limit}{key}", limit.len())
    }
}

impl<'a> Held<'a> {
    /// What the body of a question about one looks like.
    pub const EXAMPLE: &'static str = r#"{"lease":"9d2c41b07a5e63f8.4.workt1"}"#;

    /// The lease in a text, and its key.
    pub fn read(text: &'a str) -> Result<(Self, tidegate_core::Key<'static>), Problem> {
        let held = Held::parse(text).filter(|held| held.key.len() <= MAX_TEXT);
        let Some((key, held)) = held.and_then(|held| Some((tidegate_core::Key::from_text(&held.key)?, held))) else {
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
