//! The store contract itself, over HTTP: `POST /v1/apply`.
//!
//! The quota comes with each request, and times are in microseconds. [`Call`] is what is sent, [`Answers`] is what comes
//! back; the store on the one side and the servers on the other read and write both with this.
//!
//! ```
//! use tidegate::api::{MAX_KEY, apply::Call};
//!
//! let call = Call::parse(
//!     br#"{"mode":"each","requests":[{"limit":"api","key":"u1","op":"limit","cost":1,
//!         "quota":{"algorithm":"token_bucket","rate":10,"period_us":1000000}}]}"#,
//! )?;
//! let owned = call.owned(MAX_KEY, |prefix| prefix.to_owned())?;
//! assert_eq!(owned[0].request().key.to_text(), "u1");
//! # Ok::<(), tidegate::api::Problem>(())
//! ```

mod answer;
mod numbers;
mod sendable;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tidegate_core::{Cost, Key, OnStoreError, Op, Quota, Request, Scope, Timestamp};

pub use answer::Answers;
use numbers::Numbers;
pub use sendable::Sendable;

use super::{Problem, check_count};

const EXAMPLE: &str = r#"{"mode":"each","requests":[{"limit":"api","key":"u1","op":"limit","cost":1,"quota":{"algorithm":"token_bucket","rate":10,"period_us":1000000}}]}"#;

/// The prefix of keys whose quota is brought along, so that they never meet those of a limit of the server's own that has
/// the same name.
pub fn apart(prefix: &str) -> String {
    format!("{prefix}{APART}")
}

/// Whether the quota of keys with this prefix is brought along.
pub fn is_apart(prefix: &str) -> bool {
    prefix.ends_with(APART)
}

const APART: char = '\u{1}';

/// What is asked of a store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct Call<'a> {
    mode: Mode,
    #[serde(borrow)]
    requests: Vec<Asked<'a>>,
    /// When, for tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_us: Option<u64>,
}

/// How the requests of a call belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// All of them or nothing.
    All,
    /// Each on its own, in order.
    Each,
}

/// One request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct Asked<'a> {
    #[serde(borrow, default)]
    prefix: Cow<'a, str>,
    #[serde(borrow)]
    limit: Cow<'a, str>,
    /// The key's text, which is escaped; empty for everybody's.
    #[serde(borrow)]
    key: Cow<'a, str>,
    op: super::OpName,
    #[serde(default)]
    cost: super::Cost,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<super::Lease>,
    quota: Numbers,
    #[serde(default)]
    on_store_error: Policy,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Policy {
    /// The caller has a failure policy of its own, and wants to know.
    #[default]
    Closed,
    Open,
    Local,
}

/// One request to a store, owning what the contract borrows.
#[derive(Debug)]
pub struct Owned {
    scope: Scope,
    key: Key<'static>,
    quota: Quota,
    op: Op,
    on_store_error: OnStoreError,
}

impl Owned {
    /// The request.
    pub fn request(&self) -> Request<'_> {
        let Owned { scope, key, quota, op, on_store_error } = self;
        Request { scope, key, quota, op: *op, on_store_error: *on_store_error }
    }
}

impl<'a> Call<'a> {
    /// The call that asks these requests; at a time of the caller's when it is a test.
    ///
    /// The failure policy is the caller's, who wants to know when the store is broken: what is sent is `closed`.
    pub fn new(mode: Mode, requests: &'a [Request<'_>], at: Option<Timestamp>) -> Self {
        let requests = requests.iter().map(Asked::new).collect();
        Call { mode, requests, at_us: at.map(Timestamp::as_micros) }
    }

    /// The call as it is sent.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are JSON")
    }

    /// What a body asks, when it is not too much.
    pub fn parse(body: &'a [u8]) -> Result<Self, Problem> {
        let call: Self = super::parse(body, EXAMPLE)?;
        check_count(call.requests.len())?;
        Ok(call)
    }

    /// How the requests belong together.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// When, if the caller has said so, which only a server for tests may be told.
    pub fn at(&self, testing: bool) -> Result<Option<Timestamp>, Problem> {
        match self.at_us {
            Some(_) if !testing => {
                Err(Problem::bad_request("at_us: only a server that was started with --testing takes the time"))
            }
            at => Ok(at.map(Timestamp::from_micros)),
        }
    }

    /// The requests, once nothing is wrong with any of them. No text is longer than `longest`, and `apart` makes the
    /// prefix of their keys, so that a server can keep them from meeting its own.
    pub fn owned(&self, longest: usize, apart: impl Fn(&str) -> String) -> Result<Vec<Owned>, Problem> {
        self.requests.iter().map(|asked| asked.owned(longest, &apart)).collect()
    }

    /// What is asked, and for how much, as the API has it.
    pub fn told(&self) -> impl Iterator<Item = Result<(super::Op, u64), Problem>> {
        self.requests.iter().map(|asked| Ok((asked.told_op()?, asked.cost.0)))
    }
}

impl<'a> Asked<'a> {
    fn new(request: &'a Request<'_>) -> Self {
        use super::OpName;
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
        Asked {
            prefix: request.scope.prefix().into(),
            limit: request.scope.limit().into(),
            key: request.key.to_text(),
            op,
            cost: super::Cost(cost.map_or(1, Cost::get)),
            lease: lease.map(super::Lease),
            quota: Numbers::of(request.quota),
            on_store_error: Policy::Closed,
        }
    }

    fn told_op(&self) -> Result<super::Op, Problem> {
        self.op.on(self.lease.map(|lease| lease.0)).map_err(Problem::bad_request)
    }

    fn owned(&self, longest: usize, apart: &impl Fn(&str) -> String) -> Result<Owned, Problem> {
        for (name, text) in [("key", &self.key), ("prefix", &self.prefix), ("limit", &self.limit)] {
            if text.len() > longest {
                let found = text.len();
                return Err(Problem::bad_request(format!("{name}: found {found} bytes, expected at most {longest}")));
            }
        }
        let key = Key::from_text(&self.key).ok_or_else(|| {
            Problem::bad_request("key: not the text of a key, in which | and % are written %7c and %25")
        })?;
        let cost = Cost::new(self.cost.0).map_err(|error| Problem::bad_request(error.to_string()))?;
        let op = match self.told_op()? {
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
            Policy::Closed => OnStoreError::Closed,
            Policy::Open => OnStoreError::Open,
            Policy::Local => OnStoreError::Local,
        };
        let quota = self.quota.quota().map_err(|error| Problem::bad_request(format!("quota: {error}")))?;
        Ok(Owned { scope: Scope::new(&apart(&self.prefix), &self.limit), key, quota, op, on_store_error })
    }
}
