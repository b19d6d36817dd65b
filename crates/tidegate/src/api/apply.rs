//! The store contract over HTTP: `POST /v1/apply`.
//!
//! Each request carries its quota; times are in microseconds. The client sends an [`ApplyRequest`], the server returns an
//! [`ApplyResponse`]. The remote store and the servers share these types.
//!
//! ```
//! use tidegate::api::{MAX_KEY_BYTES, apply::ApplyRequest};
//!
//! let request = ApplyRequest::parse(
//!     br#"{"mode":"each","requests":[{"limit":"api","key":"u1","op":"limit","cost":1,
//!         "quota":{"algorithm":"token_bucket","rate":10,"period_us":1000000}}]}"#,
//! )?;
//! let owned = request.to_owned_requests(MAX_KEY_BYTES, |prefix| prefix.to_owned())?;
//! assert_eq!(owned[0].request().key.to_text(), "u1");
//! # Ok::<(), tidegate::api::Problem>(())
//! ```

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::{
    Algorithm, Cost, Decision, DecisionParts, Key, OnStoreError, Op, Quota, QuotaError, Reason, Request, Scope,
    StoreError, StoreErrorKind, Timestamp,
};

use super::{CostField, LeaseField, OpName, Problem, check_batch_len};

const EXAMPLE: &str = r#"{"mode":"each","requests":[{"limit":"api","key":"u1","op":"limit","cost":1,"quota":{"algorithm":"token_bucket","rate":10,"period_us":1000000}}]}"#;

/// Returns the prefix of keys whose requests carry their own quota. It keeps them apart from the keys of a configured
/// limit with the same name.
pub fn isolate_prefix(prefix: &str) -> String {
    format!("{prefix}{ISOLATED_SUFFIX}")
}

/// Returns whether requests with this prefix carry their own quota.
pub fn is_isolated_prefix(prefix: &str) -> bool {
    prefix.ends_with(ISOLATED_SUFFIX)
}

const ISOLATED_SUFFIX: char = '\u{1}';

/// A request to the store contract: the body of `/v1/apply`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct ApplyRequest<'a> {
    mode: ApplyMode,
    #[serde(borrow)]
    requests: Vec<ApplyItem<'a>>,
    /// The time of the request, for tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_us: Option<u64>,
}

/// The mode in which requests are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyMode {
    /// All or nothing.
    All,
    /// Independently, in order.
    Each,
}

/// One request to a store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct ApplyItem<'a> {
    #[serde(borrow, default)]
    prefix: Cow<'a, str>,
    #[serde(borrow)]
    limit: Cow<'a, str>,
    /// The escaped text of the key; empty for the global key.
    #[serde(borrow)]
    key: Cow<'a, str>,
    op: OpName,
    #[serde(default)]
    cost: CostField,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseField>,
    quota: QuotaFields,
    #[serde(default)]
    on_store_error: PolicyField,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PolicyField {
    /// The caller has a failure policy of its own, and must see failures.
    #[default]
    Closed,
    Open,
    Local,
}

/// One request to a store, with owned data.
#[derive(Debug)]
pub struct OwnedRequest {
    scope: Scope,
    key: Key<'static>,
    quota: Quota,
    op: Op,
    on_store_error: OnStoreError,
}

impl OwnedRequest {
    /// Returns the request.
    pub fn request(&self) -> Request<'_> {
        let OwnedRequest { scope, key, quota, op, on_store_error } = self;
        Request { scope, key, quota, op: *op, on_store_error: *on_store_error }
    }
}

impl<'a> ApplyRequest<'a> {
    /// Returns a request that applies these; a test may set the time.
    ///
    /// The failure policy stays with the caller, which must see failures: the wire says `closed`.
    pub fn new(mode: ApplyMode, requests: &'a [Request<'_>], at: Option<Timestamp>) -> Self {
        let requests = requests.iter().map(ApplyItem::new).collect();
        ApplyRequest { mode, requests, at_us: at.map(Timestamp::as_micros) }
    }

    /// Returns the body.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are JSON")
    }

    /// Parses a body with an acceptable number of requests.
    pub fn parse(body: &'a [u8]) -> Result<Self, Problem> {
        let request: Self = super::parse(body, EXAMPLE)?;
        check_batch_len(request.requests.len())?;
        Ok(request)
    }

    /// Returns how the requests are applied.
    pub fn mode(&self) -> ApplyMode {
        self.mode
    }

    /// Returns the time that the caller sets. Only a server for tests accepts one.
    pub fn at(&self, testing: bool) -> Result<Option<Timestamp>, Problem> {
        match self.at_us {
            Some(_) if !testing => {
                Err(Problem::bad_request("at_us: only a server that was started with --testing takes the time"))
            }
            at => Ok(at.map(Timestamp::from_micros)),
        }
    }

    /// Returns the requests if all are valid. No text may be longer than `max_bytes`. `prefix_fn` maps their prefixes,
    /// so that a server can keep their keys apart from its own.
    pub fn to_owned_requests(
        &self,
        max_bytes: usize,
        prefix_fn: impl Fn(&str) -> String,
    ) -> Result<Vec<OwnedRequest>, Problem> {
        self.requests.iter().map(|item| item.to_owned_request(max_bytes, &prefix_fn)).collect()
    }

    /// Returns the operations and costs, for statistics.
    pub fn operations(&self) -> impl Iterator<Item = Result<(super::Op, u64), Problem>> {
        self.requests.iter().map(|item| Ok((item.operation()?, item.cost.0)))
    }
}

impl<'a> ApplyItem<'a> {
    fn new(request: &'a Request<'_>) -> Self {
        let (op, cost, lease) = match request.op {
            Op::Limit(cost) => (OpName::Limit, Some(cost), None),
            Op::Check(cost) => (OpName::Check, Some(cost), None),
            Op::Reserve(cost) => (OpName::Reserve, Some(cost), None),
            Op::Refund(cost) => (OpName::Refund, Some(cost), None),
            Op::Reset => (OpName::Reset, None, None),
            Op::Admit(lease) => (OpName::Admit, None, Some(lease)),
            Op::Renew(lease) => (OpName::Renew, None, Some(lease)),
            Op::Release(lease) => (OpName::Release, None, Some(lease)),
        };
        ApplyItem {
            prefix: request.scope.prefix().into(),
            limit: request.scope.limit().into(),
            key: request.key.to_text(),
            op,
            cost: CostField(cost.map_or(1, Cost::get)),
            lease: lease.map(LeaseField),
            quota: QuotaFields::of(request.quota),
            on_store_error: PolicyField::Closed,
        }
    }

    fn operation(&self) -> Result<super::Op, Problem> {
        self.op.with_lease(self.lease.map(|lease| lease.0)).map_err(Problem::bad_request)
    }

    fn to_owned_request(&self, max_bytes: usize, prefix_fn: &impl Fn(&str) -> String) -> Result<OwnedRequest, Problem> {
        for (name, text) in [("key", &self.key), ("prefix", &self.prefix), ("limit", &self.limit)] {
            if text.len() > max_bytes {
                let found = text.len();
                return Err(Problem::bad_request(format!("{name}: found {found} bytes, expected at most {max_bytes}")));
            }
        }
        let key = Key::from_text(&self.key).ok_or_else(|| {
            Problem::bad_request("key: not the text of a key, in which | and % are written %7c and %25")
        })?;
        let cost = Cost::new(self.cost.0).map_err(|error| Problem::bad_request(error.to_string()))?;
        let op = match self.operation()? {
            super::Op::Limit => Op::Limit(cost),
            super::Op::Check => Op::Check(cost),
            super::Op::Reserve => Op::Reserve(cost),
            super::Op::Refund => Op::Refund(cost),
            super::Op::Reset => Op::Reset,
            super::Op::Admit(lease) => Op::Admit(lease),
            super::Op::Renew(lease) => Op::Renew(lease),
            super::Op::Release(lease) => Op::Release(lease),
        };
        let on_store_error = match self.on_store_error {
            PolicyField::Closed => OnStoreError::Closed,
            PolicyField::Open => OnStoreError::Open,
            PolicyField::Local => OnStoreError::Local,
        };
        let quota = self.quota.quota().map_err(|error| Problem::bad_request(format!("quota: {error}")))?;
        Ok(OwnedRequest { scope: Scope::new(&prefix_fn(&self.prefix), &self.limit), key, quota, op, on_store_error })
    }
}

/// The response of `/v1/apply`: for each request a decision or an error.
#[derive(Debug, Serialize, Deserialize)]
pub struct ApplyResponse<'a> {
    #[serde(borrow)]
    decisions: Vec<ApplyResult<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum ApplyResult<'a> {
    Decision(#[serde(borrow)] DecisionFields<'a>),
    Error {
        #[serde(borrow)]
        error: ErrorFields<'a>,
    },
}

/// A decision with every field, in microseconds.
#[derive(Debug, Serialize, Deserialize)]
struct DecisionFields<'a> {
    allowed: bool,
    limit: u32,
    remaining: u32,
    retry_after_us: Option<u64>,
    next_after_us: Option<u64>,
    reset_after_us: u64,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ErrorFields<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    message: String,
    retryable: bool,
}

impl<'a> ApplyResponse<'a> {
    /// Returns the response for these results.
    pub fn new<'b>(answers: impl IntoIterator<Item = &'b Result<Decision, StoreError>>) -> Self {
        ApplyResponse { decisions: answers.into_iter().map(ApplyResult::of).collect() }
    }

    /// Returns the body.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are JSON")
    }

    /// Parses a body; `None` if it is not a response of Tidegate.
    pub fn parse(body: &'a [u8]) -> Option<Vec<Result<Decision, StoreError>>> {
        let answers: ApplyResponse<'_> = serde_json::from_slice(body).ok()?;
        answers.decisions.into_iter().map(ApplyResult::into_result).collect()
    }
}

impl ApplyResult<'_> {
    fn of(answer: &Result<Decision, StoreError>) -> Self {
        match answer {
            Ok(decision) => {
                let parts = decision.into_parts();
                ApplyResult::Decision(DecisionFields {
                    allowed: parts.allowed,
                    limit: parts.limit,
                    remaining: parts.remaining,
                    retry_after_us: parts.retry_after,
                    next_after_us: parts.next_after,
                    reset_after_us: parts.reset_after,
                    reason: parts.reason.map(|reason| reason.as_str().into()),
                })
            }
            Err(error) => {
                let (kind, retryable) = (error.kind().as_str().into(), error.is_retryable());
                ApplyResult::Error { error: ErrorFields { kind, message: error.message().to_owned(), retryable } }
            }
        }
    }

    /// Returns the result; `None` if a field has an unknown value.
    fn into_result(self) -> Option<Result<Decision, StoreError>> {
        match self {
            ApplyResult::Decision(fields) => {
                let named = |name: &str| ALL_REASONS.into_iter().find(|reason| reason.as_str() == name);
                let reason = match &fields.reason {
                    Some(name) => Some(named(name)?),
                    None => None,
                };
                let parts = DecisionParts {
                    allowed: fields.allowed,
                    limit: fields.limit,
                    remaining: fields.remaining,
                    retry_after: fields.retry_after_us,
                    next_after: fields.next_after_us,
                    reset_after: fields.reset_after_us,
                    reason,
                };
                Some(Ok(parts.into()))
            }
            ApplyResult::Error { error } => {
                // An unknown kind, from a newer server, still says whether a retry helps.
                let other = if error.retryable { StoreErrorKind::Unavailable } else { StoreErrorKind::Corrupt };
                let kind = ALL_ERROR_KINDS.into_iter().find(|kind| kind.as_str() == error.kind).unwrap_or(other);
                Some(Err(StoreError::new(kind, error.message)))
            }
        }
    }
}

const ALL_REASONS: [Reason; 5] =
    [Reason::Rate, Reason::Deny, Reason::CostExceedsCapacity, Reason::Concurrency, Reason::Store];

const ALL_ERROR_KINDS: [StoreErrorKind; 6] = [
    StoreErrorKind::Unavailable,
    StoreErrorKind::Timeout,
    StoreErrorKind::Overloaded,
    StoreErrorKind::Contended,
    StoreErrorKind::Corrupt,
    StoreErrorKind::Unsupported,
];

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct QuotaFields {
    algorithm: String,
    rate: u64,
    period_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_debt: Option<u64>,
}

impl QuotaFields {
    /// Returns the fields that the quota's algorithm uses.
    pub(super) fn of(quota: &Quota) -> Self {
        let parts = quota.parts();
        let is = |algorithms: &[Algorithm]| algorithms.contains(&parts.algorithm);
        let has_capacity = is(&[Algorithm::TokenBucket, Algorithm::FixedWindow]);
        let has_start = is(&[Algorithm::FixedWindow, Algorithm::SlidingWindow]);
        QuotaFields {
            algorithm: parts.algorithm.as_str().to_owned(),
            rate: parts.rate.into(),
            period_us: parts.period.as_micros() as u64,
            capacity: has_capacity.then_some(parts.capacity.into()),
            start_us: has_start.then_some(parts.start.as_micros() as u64),
            buckets: is(&[Algorithm::SlidingWindow]).then_some(parts.buckets.into()),
            max_debt: parts.max_debt.map(u64::from),
        }
    }

    /// Returns the quota, or an error that names the wrong field.
    pub(super) fn quota(&self) -> Result<Quota, QuotaError> {
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == self.algorithm);
        let algorithm = algorithm.ok_or_else(|| {
            let expected = format!("one of {}", Algorithm::ALL.map(|algorithm| algorithm.as_str()).join(", "));
            QuotaError::new("algorithm", format!("{:?}", self.algorithm), expected)
        })?;
        let mut quota = Quota::new(algorithm, self.rate, Duration::from_micros(self.period_us))?;
        if let Some(capacity) = self.capacity {
            quota = quota.capacity(capacity)?;
        }
        if let Some(start) = self.start_us {
            quota = quota.start(Duration::from_micros(start))?;
        }
        if let Some(buckets) = self.buckets {
            quota = quota.buckets(buckets)?;
        }
        if let Some(max_debt) = self.max_debt {
            quota = quota.max_debt(max_debt)?;
        }
        Ok(quota)
    }
}

/// A batch split into requests that can be sent and errors for the rest. One text that is too long does not fail the
/// others.
#[derive(Debug)]
pub struct SendableBatch<'a> {
    requests: Vec<Request<'a>>,
    /// `None` for a request that is sent.
    errors: Vec<Option<StoreError>>,
}

impl<'a> SendableBatch<'a> {
    /// Splits off the requests with a text longer than `max_bytes`.
    pub fn of(requests: &[Request<'a>], max_bytes: usize) -> Self {
        let errors: Vec<_> = requests.iter().map(|request| check_text_lengths(request, max_bytes).err()).collect();
        let sent = requests.iter().zip(&errors).filter(|(_, errors)| errors.is_none());
        SendableBatch { requests: sent.map(|(request, _)| *request).collect(), errors }
    }

    /// Returns the requests to send.
    pub fn requests(&self) -> &[Request<'a>] {
        &self.requests
    }

    /// Merges the results of the sent requests with the errors of the others, in the order of the batch.
    pub fn results(self, results: Vec<Result<Decision, StoreError>>) -> Vec<Result<Decision, StoreError>> {
        let mut results = results.into_iter();
        let result = |error: Option<StoreError>| match error {
            Some(error) => Err(error),
            None => results.next().expect("an answer to each that was sent"),
        };
        self.errors.into_iter().map(result).collect()
    }
}

fn check_text_lengths(request: &Request<'_>, max_bytes: usize) -> Result<(), StoreError> {
    let key = request.key.to_text();
    for (name, text) in [("key", &*key), ("prefix", request.scope.prefix()), ("limit", request.scope.limit())] {
        if text.len() > max_bytes {
            let why = format!("{name}: found {} bytes, expected at most {max_bytes}", text.len());
            return Err(StoreError::new(StoreErrorKind::Unsupported, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidegate_core::{MAX_COUNT, days, seconds};

    use super::*;

    #[test]
    fn every_result_survives_a_round_trip() {
        let parts = DecisionParts {
            allowed: false,
            limit: u32::MAX,
            remaining: 7,
            retry_after: Some(DecisionParts::MAX_SPAN),
            next_after: Some(1),
            reset_after: u64::MAX >> 1,
            reason: None,
        };
        let mut answers: Vec<Result<Decision, StoreError>> =
            ALL_REASONS.map(|reason| Ok(DecisionParts { reason: Some(reason), ..parts }.into())).into();
        let new = DecisionParts { allowed: true, retry_after: None, next_after: None, reset_after: 0, ..parts };
        answers.push(Ok(new.into()));
        answers.extend(ALL_ERROR_KINDS.map(|kind| Err(StoreError::new(kind, "why"))));
        let read = ApplyResponse::parse(&ApplyResponse::new(&answers).to_json()).unwrap();
        assert_eq!(read.len(), answers.len());
        for (read, sent) in read.iter().zip(&answers) {
            let comparable = |answer: &Result<Decision, StoreError>| {
                answer.as_ref().map(|decision| decision.into_parts()).map_err(ToString::to_string)
            };
            assert_eq!(comparable(read), comparable(sent));
        }
    }

    #[test]
    fn foreign_body_is_not_parsed_as_a_response() {
        for body in ["", "{}", "[]", r#"{"decisions":[{}]}"#, r#"{"decisions":[{"allowed":true}]}"#] {
            assert!(ApplyResponse::parse(body.as_bytes()).is_none(), "{body}");
        }
        let odd = r#"{"decisions":[{"allowed":false,"limit":1,"remaining":0,"retry_after_us":1,"next_after_us":1,"reset_after_us":1,"reason":"moon"}]}"#;
        assert!(ApplyResponse::parse(odd.as_bytes()).is_none());
        let newer = r#"{"decisions":[{"error":{"kind":"newer","message":"m","retryable":true}}]}"#;
        let error = ApplyResponse::parse(newer.as_bytes()).unwrap().remove(0).unwrap_err();
        assert!(error.is_retryable());
    }

    #[test]
    fn every_quota_survives_a_round_trip() {
        let quotas = [
            Quota::token_bucket(10, seconds(1)),
            Quota::token_bucket(MAX_COUNT, days(366)).and_then(|quota| quota.capacity(7)?.max_debt(3)),
            Quota::fixed_window(7, seconds(3)).and_then(|quota| quota.capacity(70)?.start(seconds(1))?.max_debt(0)),
            Quota::sliding_window(10, seconds(64)).and_then(|quota| quota.buckets(64)?.start(seconds(2))),
            Quota::sliding_log(10, seconds(1)).and_then(|quota| quota.max_debt(1)),
            Quota::concurrency(10, seconds(30)),
        ];
        for quota in quotas.map(Result::unwrap) {
            let text = serde_json::to_string(&QuotaFields::of(&quota)).unwrap();
            let read: QuotaFields = serde_json::from_str(&text).unwrap();
            assert_eq!(read.quota().unwrap(), quota, "{text}");
        }
    }
}
