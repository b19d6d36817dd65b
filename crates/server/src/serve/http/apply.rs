//! The store contract itself, for stores that ask this server: the quota comes with each request, and times are in
//! microseconds.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tidegate::{
    Algorithm, All, Cost, Decision, Error, Key, OnStoreError, Op, Quota, QuotaError, Scope, Store, StoreError,
    Timestamp,
};

use super::body;
use super::problem::Problem;
use crate::json::{self, MAX_KEY};
use crate::serve::gate::{Ask, Gate};
use crate::serve::served::{APPLY, apart};

const EXAMPLE: &str = r#"{"mode":"each","requests":[{"limit":"api","key":"u1","op":"limit","cost":1,"quota":{"algorithm":"token_bucket","rate":10,"period_us":1000000}}]}"#;

/// What is asked of the store.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Applied<'a> {
    mode: Mode,
    #[serde(borrow)]
    requests: Vec<Asked<'a>>,
    /// When, for tests.
    at_us: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    All,
    Each,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Asked<'a> {
    #[serde(borrow, default)]
    prefix: Cow<'a, str>,
    #[serde(borrow)]
    limit: Cow<'a, str>,
    /// The key's text, which is escaped; empty for everybody's.
    #[serde(borrow)]
    key: Cow<'a, str>,
    op: json::OpName,
    #[serde(default)]
    cost: json::Cost,
    lease: Option<json::Lease>,
    quota: Numbers,
    #[serde(default)]
    on_store_error: Policy,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Numbers {
    algorithm: String,
    rate: u64,
    period_us: u64,
    capacity: Option<u64>,
    start_us: Option<u64>,
    buckets: Option<u64>,
    max_debt: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Policy {
    /// The caller has a failure policy of its own, and wants to know.
    #[default]
    Closed,
    Open,
    Local,
}

/// One request to the store, owning what the contract borrows.
struct Owned {
    scope: Scope,
    key: Key<'static>,
    quota: Quota,
    op: Op,
    on_store_error: OnStoreError,
}

impl Owned {
    fn request(&self) -> tidegate::Request<'_> {
        let Owned { scope, key, quota, op, on_store_error } = self;
        tidegate::Request { scope, key, quota, op: *op, on_store_error: *on_store_error }
    }
}

#[derive(Serialize)]
struct Answers {
    decisions: Vec<Answer>,
}

/// A decision, or why there is none.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Decided(Micros),
    Failed { error: Failed },
}

/// A decision with every field, in microseconds.
#[derive(Serialize)]
struct Micros {
    allowed: bool,
    limit: u32,
    remaining: u32,
    retry_after_us: Option<u64>,
    next_after_us: Option<u64>,
    reset_after_us: u64,
    reason: Option<&'static str>,
}

#[derive(Serialize)]
struct Failed {
    kind: &'static str,
    message: String,
    retryable: bool,
}

pub(super) async fn apply(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::SEVERAL).await?;
    let applied: Applied<'_> = body::parse(&body, EXAMPLE)?;
    body::check_count(applied.requests.len())?;
    let at = match applied.at_us {
        Some(_) if !gate.testing => {
            return Err(Problem::bad_request("at_us: only a server that was started with --testing takes the time"));
        }
        at => at.map(Timestamp::from_micros),
    };
    let owned = applied.requests.iter().map(owned).collect::<Result<Vec<_>, _>>()?;
    let requests: Vec<_> = owned.iter().map(Owned::request).collect();
    let answers = match applied.mode {
        Mode::Each => each(&gate, &requests, at).await,
        Mode::All => match all(&gate, &requests, at).await {
            Ok(all) => all.into_decisions().into_iter().map(Ok).collect(),
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        },
    };
    for (asked, answer) in applied.requests.iter().zip(&answers) {
        let ask = Ask { op: told_op(asked)?, limit: APPLY, key: Key::GLOBAL, cost: asked.cost.0, quota: None };
        gate.watch.saw(&ask, &answer.clone().map_err(Error::Store));
    }
    Ok(body::answer(&Answers { decisions: answers.iter().map(told).collect() }))
}

async fn each(
    gate: &Gate,
    requests: &[tidegate::Request<'_>],
    at: Option<Timestamp>,
) -> Vec<Result<Decision, StoreError>> {
    let Some(at) = at else { return gate.backing.store().apply_each(requests).await };
    let mut answers = Vec::with_capacity(requests.len());
    for request in requests {
        answers.push(gate.backing.apply_at(request, at).await);
    }
    answers
}

async fn all(gate: &Gate, requests: &[tidegate::Request<'_>], at: Option<Timestamp>) -> Result<All, StoreError> {
    match at {
        None => gate.backing.store().apply_all(requests).await,
        Some(at) => gate.backing.apply_all_at(requests, at).await,
    }
}

fn told_op(asked: &Asked<'_>) -> Result<json::Op, Problem> {
    asked.op.on(asked.lease.map(|lease| lease.0)).map_err(Problem::bad_request)
}

fn owned(asked: &Asked<'_>) -> Result<Owned, Problem> {
    for (name, text) in [("key", &asked.key), ("prefix", &asked.prefix), ("limit", &asked.limit)] {
        if text.len() > MAX_KEY {
            return Err(Problem::bad_request(format!(
                "{name}: found {} bytes, expected at most {MAX_KEY}",
                text.len()
            )));
        }
    }
    let key = Key::from_text(&asked.key)
        .ok_or_else(|| Problem::bad_request("key: not the text of a key, in which | and % are written %7c and %25"))?;
    let cost = Cost::new(asked.cost.0).map_err(|error| Problem::bad_request(error.to_string()))?;
    let op = match told_op(asked)? {
        json::Op::Limit => Op::Limit(cost),
        json::Op::Check => Op::Check(cost),
        json::Op::Reserve => Op::Reserve(cost),
        json::Op::Refund => Op::Refund(cost),
        json::Op::Reset => Op::Reset,
        json::Op::Admit(lease) => Op::Admit(lease),
        json::Op::Renew(lease) => Op::Renew(lease),
        json::Op::Release(lease) => Op::Release(lease),
    };
    let on_store_error = match asked.on_store_error {
        Policy::Closed => OnStoreError::Closed,
        Policy::Open => OnStoreError::Open,
        Policy::Local => OnStoreError::Local,
    };
    let quota = quota(&asked.quota).map_err(|error| Problem::bad_request(format!("quota: {error}")))?;
    Ok(Owned { scope: Scope::new(&apart(&asked.prefix), &asked.limit), key, quota, op, on_store_error })
}

fn quota(numbers: &Numbers) -> Result<Quota, QuotaError> {
    let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == numbers.algorithm);
    let algorithm = algorithm.ok_or_else(|| {
        let expected = format!("one of {}", Algorithm::ALL.map(|algorithm| algorithm.as_str()).join(", "));
        QuotaError::new("algorithm", format!("{:?}", numbers.algorithm), expected)
    })?;
    let mut quota = Quota::new(algorithm, numbers.rate, Duration::from_micros(numbers.period_us))?;
    if let Some(capacity) = numbers.capacity {
        quota = quota.capacity(capacity)?;
    }
    if let Some(start) = numbers.start_us {
        quota = quota.start(Duration::from_micros(start))?;
    }
    if let Some(buckets) = numbers.buckets {
        quota = quota.buckets(buckets)?;
    }
    if let Some(max_debt) = numbers.max_debt {
        quota = quota.max_debt(max_debt)?;
    }
    Ok(quota)
}

fn told(answer: &Result<Decision, StoreError>) -> Answer {
    match answer {
        Ok(decision) => {
            let parts = decision.into_parts();
            Answer::Decided(Micros {
                allowed: parts.allowed,
                limit: parts.limit,
                remaining: parts.remaining,
                retry_after_us: parts.retry_after,
                next_after_us: parts.next_after,
                reset_after_us: parts.reset_after,
                reason: parts.reason.map(|reason| reason.as_str()),
            })
        }
        Err(error) => Answer::Failed {
            error: Failed { kind: error.kind().as_str(), message: error.to_string(), retryable: error.is_retryable() },
        },
    }
}
