//! Several decisions in one request: all or nothing, or each on its own.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;

use super::{body, decide};
use crate::json::{All, Batch, Op, Problem, Several};
use crate::serve::gate::{Ask, Gate};

/// The questions, once nothing is wrong with any of them.
fn asks<'a>(several: &'a Several<'_>, gate: &Gate) -> Result<Vec<Ask<'a>>, Problem> {
    let asks: Vec<_> = several.requests.iter().map(|asked| decide::ask(asked, Op::Limit)).collect::<Result<_, _>>()?;
    for ask in &asks {
        gate.limiter.quota(ask.limit).map_err(|error| Problem::from(&error))?;
    }
    Ok(asks)
}

/// Takes all of them or nothing.
pub(super) async fn all(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::SEVERAL).await?;
    let several = Several::parse(&body)?;
    let all = gate.all(&asks(&several, &gate)?).await.map_err(|error| Problem::from(&error))?;
    Ok(body::answer(&All::from(&all)))
}

/// Decides about each of them on its own, in order.
pub(super) async fn batch(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::SEVERAL).await?;
    let several = Several::parse(&body)?;
    let answers = gate.each(&asks(&several, &gate)?).await;
    Ok(body::answer(&Batch::new(&answers, |error| Problem::from(error))))
}
