//! One decision about one key.

use std::error::Error;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http_body::Body;

use super::body;
use crate::json::{Asked, Op, Problem, Reply, same_site};
use crate::serve::gate::{Ask, Gate};

/// The question, once nothing is wrong with it.
pub(super) fn ask<'a>(asked: &'a Asked<'_>, op: Op) -> Result<Ask<'a>, Problem> {
    Ok(Ask { op, limit: &asked.limit, key: asked.key.checked()?, cost: asked.cost.0, quota: None, whole_key: None })
}

pub(super) async fn decide(op: Op, State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    same_site(request.uri(), request.headers())?;
    Ok(body::answer_text(decision(op, &gate, request.into_body()).await?.to_json()))
}

/// What is decided about a request that may ask.
pub(super) async fn decision<B>(op: Op, gate: &Gate, body: B) -> Result<Reply, Problem>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let body = body::read_of(body, body::ONE).await?;
    let asked: Asked<'_> = body::parse(&body, Asked::EXAMPLE)?;
    let ask = ask(&asked, op)?;
    let answer = match gate.now(&ask) {
        Some(answer) => answer,
        None => gate.ask(&ask).await,
    };
    match answer {
        Ok(decision) => Ok(Reply::from(&decision)),
        Err(error) => Err(Problem::from(&error)),
    }
}
