//! Places of limits on how many are in flight: asked for, held on to, given back.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use tidegate::{Decision, Key};

use super::body;
use crate::json::{Admitted, Held, Kept, Op, Place, Problem, Released, Renewed, Reply, is_held};
use crate::serve::gate::{Ask, Gate};
use crate::serve::watch::recorder;

/// Asks for a place.
pub(super) async fn admit(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::ONE).await?;
    let place: Place<'_> = body::parse(&body, Place::EXAMPLE)?;
    let (limit, key) = (&*place.limit, place.key.checked()?);
    let lease = gate.limiter.admit(limit, &key).asked_for();
    let decision = ask(&gate, Op::Admit(lease), limit, key.borrow()).await?;
    let held = Held { lease, limit: limit.into(), key: key.to_text() };
    Ok(body::answer(&Admitted::new(&decision, &held, gate.limiter.quota(limit).ok().as_ref())))
}

/// Holds on to a place.
pub(super) async fn renew(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::ONE).await?;
    let Renewed { lease } = body::parse(&body, Held::EXAMPLE)?;
    let (held, key) = Held::read(&lease)?;
    let decision = ask(&gate, Op::Renew(held.lease), &held.limit, key).await?;
    Ok(body::answer(&Kept::new(&decision, gate.limiter.quota(&held.limit).ok().as_ref())))
}

/// Gives a place back.
pub(super) async fn release(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::ONE).await?;
    let released: Released<'_> = body::parse(&body, Held::EXAMPLE)?;
    let ((held, key), work) = (Held::read(&released.lease)?, released.work()?);
    let decision = ask(&gate, Op::Release(held.lease), &held.limit, key).await?;
    if is_held(&decision) {
        recorder::released(&held.limit, work);
    }
    Ok(body::answer_text(Reply::from(&decision).to_json()))
}

async fn ask(gate: &Gate, op: Op, limit: &str, key: Key<'_>) -> Result<Decision, Problem> {
    let ask = Ask { op, limit, key, cost: 1, quota: None, whole_key: None };
    gate.ask(&ask).await.map_err(|error| Problem::from(&error))
}
