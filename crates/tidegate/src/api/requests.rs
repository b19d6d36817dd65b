//! Requests about limits by name, and their responses.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use tidegate_core::{Cost, Decision, Lease, Quota, ceil_millis};

use super::{CostField, KeyField, MAX_KEY_BYTES, MAX_KEY_TEXT_BYTES, Problem, check_batch_len, parse};
use crate::concurrency::Completion;
use crate::{Error, Limit};

/// A request to one limit by name: the body of `/v1/limit` and its siblings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct LimitRequest<'a> {
    /// The name of the limit.
    #[serde(borrow)]
    pub limit: Cow<'a, str>,
    /// The key to limit.
    #[serde(borrow)]
    pub key: KeyField<'a>,
    /// The cost.
    #[serde(default)]
    pub cost: CostField,
}

impl LimitRequest<'_> {
    /// An example for error messages.
    pub const EXAMPLE: &'static str = r#"{"limit":"login","key":"u1","cost":1}"#;
}

/// A request to several limits: the body of `/v1/all` and `/v1/batch`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct BatchRequest<'a> {
    /// The requests.
    #[serde(borrow)]
    pub requests: Vec<LimitRequest<'a>>,
}

impl<'a> BatchRequest<'a> {
    /// An example for error messages.
    pub const EXAMPLE: &'static str =
        r#"{"requests":[{"limit":"user","key":"u1"},{"limit":"api","key":["t1","u1"],"cost":2}]}"#;

    /// Parses a body with an acceptable number of requests.
    pub fn parse(body: &'a [u8]) -> Result<Self, Problem> {
        let batch: Self = parse(body, Self::EXAMPLE)?;
        check_batch_len(batch.requests.len())?;
        Ok(batch)
    }
}

/// The response of `/v1/all`: several limits, all or nothing.
#[derive(Debug, Serialize)]
pub struct JointResponse {
    allowed: bool,
    decisions: Vec<DecisionResponse>,
}

impl From<&crate::JointDecision> for JointResponse {
    fn from(all: &crate::JointDecision) -> Self {
        JointResponse {
            allowed: all.allowed(),
            decisions: all.decisions().iter().map(DecisionResponse::from).collect(),
        }
    }
}

/// The response of `/v1/batch`: several independent decisions.
#[derive(Debug, Serialize)]
pub struct BatchResponse {
    decisions: Vec<BatchItem>,
}

/// A decision or the problem in its place.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum BatchItem {
    Decision(DecisionResponse),
    Problem(Problem),
}

impl BatchResponse {
    /// Returns the response. `problem` converts an error for the client.
    pub fn new(results: &[Result<Decision, Error>], problem: impl Fn(&Error) -> Problem) -> Self {
        let item = |result: &Result<Decision, Error>| match result {
            Ok(decision) => BatchItem::Decision(DecisionResponse::from(decision)),
            Err(error) => BatchItem::Problem(problem(error)),
        };
        BatchResponse { decisions: results.iter().map(item).collect() }
    }
}

/// A decision as JSON. The fields keep this order.
#[derive(Debug, Serialize)]
pub struct DecisionResponse {
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    reason: Option<&'static str>,
}

impl From<&Decision> for DecisionResponse {
    fn from(decision: &Decision) -> Self {
        DecisionResponse {
            allowed: decision.allowed(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after_ms: decision.retry_after().map(ceil_millis),
            reset_after_ms: ceil_millis(decision.reset_after()),
            reason: decision.reason().map(|reason| reason.as_str()),
        }
    }
}

impl DecisionResponse {
    /// Returns the response without a limit, with no used units.
    pub fn unlimited() -> Self {
        let most = u32::MAX.into();
        DecisionResponse { limit: most, remaining: most, ..DecisionResponse::undecided() }
    }

    /// Returns the response of an admission without a decision. The remaining quota is unknown.
    pub fn undecided() -> Self {
        DecisionResponse {
            allowed: true,
            limit: 0,
            remaining: 0,
            retry_after_ms: None,
            reset_after_ms: 0,
            reason: None,
        }
    }

    /// Writes the same text as serde, in a tenth of the time. A server writes little else.
    pub fn to_json(&self) -> Vec<u8> {
        let DecisionResponse { allowed, limit, remaining, retry_after_ms, reset_after_ms, reason } = self;
        let mut text = Vec::with_capacity(160);
        let mut number = itoa::Buffer::new();
        text.extend_from_slice(if *allowed { br#"{"allowed":true,"limit":"# } else { br#"{"allowed":false,"limit":"# });
        text.extend_from_slice(number.format(*limit).as_bytes());
        text.extend_from_slice(br#","remaining":"#);
        text.extend_from_slice(number.format(*remaining).as_bytes());
        text.extend_from_slice(br#","retry_after_ms":"#);
        text.extend_from_slice(retry_after_ms.map_or("null", |wait| number.format(wait)).as_bytes());
        text.extend_from_slice(br#","reset_after_ms":"#);
        text.extend_from_slice(number.format(*reset_after_ms).as_bytes());
        match reason {
            None => text.extend_from_slice(br#","reason":null}"#),
            Some(reason) => {
                // Our own words need no escaping.
                text.extend_from_slice(br#","reason":""#);
                text.extend_from_slice(reason.as_bytes());
                text.extend_from_slice(br#""}"#);
            }
        }
        text
    }

    /// Writes a line of JSON.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

/// The response of `/v1/limits`: the limits that are served.
#[derive(Debug, Serialize)]
pub struct LimitsResponse {
    limits: Vec<LimitEntry>,
}

/// A limit in a [`LimitsResponse`].
#[derive(Debug, Serialize)]
pub struct LimitEntry {
    name: String,
    algorithm: &'static str,
    rate: u32,
    period_us: u64,
    capacity: u32,
    shadow: bool,
}

impl From<(String, Limit)> for LimitEntry {
    fn from((name, limit): (String, Limit)) -> Self {
        let quota = limit.quota().parts();
        LimitEntry {
            name,
            algorithm: quota.algorithm.as_str(),
            rate: quota.rate,
            period_us: quota.period.as_micros() as u64,
            capacity: quota.capacity,
            shadow: limit.is_shadow(),
        }
    }
}

impl FromIterator<(String, Limit)> for LimitsResponse {
    fn from_iter<I: IntoIterator<Item = (String, Limit)>>(limits: I) -> Self {
        LimitsResponse { limits: limits.into_iter().map(LimitEntry::from).collect() }
    }
}

/// A request of a proxy: the query of `/v1/auth`.
#[derive(Debug)]
pub struct AuthRequest {
    /// The name of the limit.
    pub limit: String,
    /// The key to limit. Defaults to the client address, also when it is empty.
    pub key: Option<String>,
    /// The cost.
    pub cost: Cost,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthQuery {
    limit: String,
    key: Option<String>,
    cost: Option<u64>,
}

impl AuthRequest {
    /// Parses a query without its question mark.
    pub fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let AuthQuery { limit, key, cost } = serde_urlencoded::from_str(query.unwrap_or_default())
            .map_err(|error| Problem::bad_request(format!("{error}, expected such as /v1/auth?limit=api&key=u1")))?;
        if let Some(found) = key.as_ref().map(String::len).filter(|found| *found > MAX_KEY_BYTES) {
            return Err(Problem::bad_request(format!("key: found {found} bytes, expected at most {MAX_KEY_BYTES}")));
        }
        let cost = Cost::new(cost.unwrap_or(1)).map_err(|error| Problem::bad_request(error.to_string()))?;
        // A proxy sends an empty key for a client without one. It would be one budget for all of them.
        let key = key.filter(|key| !key.is_empty());
        Ok(AuthRequest { limit, key, cost })
    }
}

/// A request for a lease: the body of `/v1/admit`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct AdmitRequest<'a> {
    /// The name of the limit.
    #[serde(borrow)]
    pub limit: Cow<'a, str>,
    /// The key to limit.
    #[serde(borrow)]
    pub key: KeyField<'a>,
}

impl AdmitRequest<'_> {
    /// An example for error messages.
    pub const EXAMPLE: &'static str = r#"{"limit":"work","key":"t1"}"#;
}

/// The response of `/v1/admit`: a decision, with a lease if one is held.
#[derive(Debug, Serialize)]
pub struct AdmitResponse {
    #[serde(flatten)]
    decision: DecisionResponse,
    lease: Option<String>,
    expires_in_ms: Option<u64>,
}

impl AdmitResponse {
    /// Returns the response under this quota.
    pub fn new(decision: &Decision, token: &LeaseToken<'_>, quota: Option<&Quota>) -> Self {
        let lease = is_lease_held(decision).then(|| token.to_string());
        AdmitResponse {
            decision: DecisionResponse::from(decision),
            expires_in_ms: lease_ttl_ms(decision, quota),
            lease,
        }
    }
}

/// A request to renew a lease: the body of `/v1/renew`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct RenewRequest<'a> {
    /// The text of a [`LeaseToken`].
    #[serde(borrow)]
    pub lease: Cow<'a, str>,
}

/// The response of `/v1/renew`: a decision, with the lifetime of the lease.
#[derive(Debug, Serialize)]
pub struct RenewResponse {
    #[serde(flatten)]
    decision: DecisionResponse,
    expires_in_ms: Option<u64>,
}

impl RenewResponse {
    /// Returns the response under this quota.
    pub fn new(decision: &Decision, quota: Option<&Quota>) -> Self {
        RenewResponse { decision: DecisionResponse::from(decision), expires_in_ms: lease_ttl_ms(decision, quota) }
    }
}

/// A request to release a lease: the body of `/v1/release`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct ReleaseRequest<'a> {
    /// The text of a [`LeaseToken`].
    #[serde(borrow)]
    pub lease: Cow<'a, str>,
    /// How the work ended.
    #[serde(borrow)]
    outcome: Option<Cow<'a, str>>,
}

impl ReleaseRequest<'_> {
    /// Returns how the work ended.
    pub fn completion(&self) -> Result<Completion, Problem> {
        let Some(outcome) = self.outcome.as_deref() else { return Ok(Completion::Ignored) };
        let known = Completion::ALL.into_iter().find(|work| work.as_str() == outcome);
        known.ok_or_else(|| {
            Problem::bad_request(format!("outcome: found {outcome:?}, expected done, dropped or ignore"))
        })
    }
}

/// Returns whether the store holds the lease. It does not after a conditional yes: the store failed, or a limit in
/// shadow mode would have denied.
pub fn is_lease_held(decision: &Decision) -> bool {
    decision.is_unconditional()
}

/// Returns the lifetime of a held lease in milliseconds. It is rounded down, unlike other times: no client should trust
/// a lease for too long.
pub fn lease_ttl_ms(decision: &Decision, quota: Option<&Quota>) -> Option<u64> {
    let quota = quota.filter(|_| is_lease_held(decision))?;
    u64::try_from(quota.parts().period.as_millis()).ok()
}

/// A lease in the form that clients get. It has its limit and key, so clients need not repeat them, and every server of
/// the fleet can handle it.
#[derive(Debug, PartialEq)]
pub struct LeaseToken<'a> {
    /// The ID of the lease.
    pub lease: Lease,
    /// The name of the limit.
    pub limit: Cow<'a, str>,
    /// The text of the key.
    pub key: Cow<'a, str>,
}

impl fmt::Display for LeaseToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeaseToken { lease, limit, key } = self;
        write!(f, "{lease}.{}.{limit}{key}", limit.len())
    }
}

impl<'a> LeaseToken<'a> {
    /// An example of a body with a token, for error messages.
    pub const EXAMPLE: &'static str = r#"{"lease":"9d2c41b07a5e63f8.4.workt1"}"#;

    /// Reads a token. Returns it with its key.
    pub fn read(text: &'a str) -> Result<(Self, tidegate_core::Key<'static>), Problem> {
        let token = LeaseToken::parse(text).filter(|token| token.key.len() <= MAX_KEY_TEXT_BYTES);
        let Some((key, token)) = token.and_then(|token| Some((tidegate_core::Key::from_text(&token.key)?, token)))
        else {
            return Err(Problem::bad_request("lease: expected what /v1/admit has answered as `lease`"));
        };
        Ok((token, key))
    }

    fn parse(text: &'a str) -> Option<Self> {
        let (lease, rest) = text.split_once('.')?;
        let (length, rest) = rest.split_once('.')?;
        let (limit, key) = rest.split_at_checked(length.parse().ok()?)?;
        Some(LeaseToken { lease: lease.parse().ok()?, limit: limit.into(), key: key.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_written_json_equals_serde_output() {
        for reason in [None, Some("rate"), Some("cost_exceeds_capacity")] {
            for (number, wait) in [(0, None), (7, Some(0)), (u64::MAX, Some(u64::MAX))] {
                let response = DecisionResponse {
                    allowed: reason.is_none(),
                    limit: number,
                    remaining: number / 3,
                    retry_after_ms: wait,
                    reset_after_ms: number / 7,
                    reason,
                };
                assert_eq!(response.to_json(), serde_json::to_vec(&response).unwrap());
            }
        }
    }

    #[test]
    fn lease_token_carries_its_limit_and_key() {
        for (limit, key) in [("work", "t1"), ("w.1.2", "%7c|a.b"), ("\u{e9}", ""), ("a", "4.b")] {
            let token = LeaseToken { lease: Lease::from_bits(u64::MAX / 3), limit: limit.into(), key: key.into() };
            assert_eq!(LeaseToken::parse(&token.to_string()), Some(token));
        }
        for broken in ["", "5", "5555555555555555", "5555555555555555.4", "5555555555555555.9.work", "x.1.a", ".1.a"] {
            assert_eq!(LeaseToken::parse(broken), None, "{broken:?}");
        }
        assert_eq!(LeaseToken::parse("5555555555555555.1.\u{e9}"), None, "in the middle of a letter");
    }
}
