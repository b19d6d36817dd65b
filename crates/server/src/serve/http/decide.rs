//! One decision about one key.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use serde::Deserialize;

use super::body;
use super::problem::Problem;
use crate::json::{Cost, Key, MAX_KEY, Op, Reply};
use crate::serve::gate::{Ask, Gate};

const EXAMPLE: &str = r#"{"limit":"login","key":"u1","cost":1}"#;

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct Asked<'a> {
    #[serde(borrow)]
    limit: Cow<'a, str>,
    #[serde(borrow)]
    key: Key<'a>,
    #[serde(default)]
    cost: Cost,
}

impl Asked<'_> {
    /// The question, once nothing is wrong with it.
    pub(super) fn ask(&self, op: Op) -> Result<Ask<'_>, Problem> {
        Ok(Ask { op, limit: &self.limit, key: checked(&self.key)?, cost: self.cost.0, quota: None })
    }
}

/// A key that is not too long.
pub(super) fn checked<'a>(key: &'a Key<'_>) -> Result<tidegate::Key<'a>, Problem> {
    match key.len() {
        0..=MAX_KEY => Ok(key.as_key()),
        found => Err(Problem::bad_request(format!("key: found {found} bytes, expected at most {MAX_KEY}"))),
    }
}

pub(super) async fn decide(op: Op, State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    Ok(body::answer_text(decision(op, &gate, &head.headers, body).await?.to_json()))
}

/// What is decided about a request.
pub(super) async fn decision<B>(op: Op, gate: &Gate, headers: &HeaderMap, body: B) -> Result<Reply, Problem>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let body = body::read_of(headers, body, body::ONE).await?;
    let asked: Asked<'_> = body::parse(&body, EXAMPLE)?;
    let ask = asked.ask(op)?;
    let answer = match gate.now(&ask) {
        Some(answer) => answer,
        None => gate.ask(&ask).await,
    };
    match answer {
        Ok(decision) => Ok(Reply::from(&decision)),
        Err(error) => Err(Problem::from(&error)),
    }
}
