//! Several decisions in one request: all or nothing, or each on its own.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};

use super::body;
use super::decide::Asked;
use super::problem::Problem;
use crate::json::{Op, Reply};
use crate::serve::gate::{Ask, Gate};

const EXAMPLE: &str = r#"{"requests":[{"limit":"user","key":"u1"},{"limit":"api","key":["t1","u1"],"cost":2}]}"#;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Several<'a> {
    #[serde(borrow)]
    requests: Vec<Asked<'a>>,
}

impl Several<'_> {
    /// The questions, once nothing is wrong with any of them.
    fn asks(&self, gate: &Gate) -> Result<Vec<Ask<'_>>, Problem> {
        body::check_count(self.requests.len())?;
        let asks: Vec<_> = self.requests.iter().map(|asked| asked.ask(Op::Limit)).collect::<Result<_, _>>()?;
        for ask in &asks {
            gate.limiter.quota(ask.limit).map_err(|error| Problem::from(&error))?;
        }
        Ok(asks)
    }
}

#[derive(Serialize)]
struct All {
    allowed: bool,
    decisions: Vec<Reply>,
}

/// Takes all of them or nothing.
pub(super) async fn all(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::SEVERAL).await?;
    let several: Several<'_> = body::parse(&body, EXAMPLE)?;
    let all = gate.all(&several.asks(&gate)?).await.map_err(|error| Problem::from(&error))?;
    let decisions = all.decisions().iter().map(Reply::from).collect();
    Ok(body::answer(&All { allowed: all.allowed(), decisions }))
}

#[derive(Serialize)]
struct Batch {
    decisions: Vec<Answer>,
}

/// A decision, or why there is none.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Decided(Reply),
    Failed(Problem),
}

/// Decides about each of them on its own, in order.
pub(super) async fn batch(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::SEVERAL).await?;
    let several: Several<'_> = body::parse(&body, EXAMPLE)?;
    let answers = gate.each(&several.asks(&gate)?).await;
    let decisions = answers.iter().map(|answer| match answer {
        Ok(decision) => Answer::Decided(Reply::from(decision)),
        Err(error) => Answer::Failed(Problem::from(error)),
    });
    Ok(body::answer(&Batch { decisions: decisions.collect() }))
}
