//! The store contract itself, for stores that ask this server: the quota comes with each request, and times are in
//! microseconds.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use tidegate::{All, Decision, Error, Key, Store, StoreError, Timestamp};

use super::body;
use crate::json::apply::{Answers, Call, Mode, Owned};
use crate::json::{MAX_KEY, Op, Problem};
use crate::serve::gate::{Ask, Gate};
use crate::serve::served::{APPLY, apart};

pub(super) async fn apply(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::SEVERAL).await?;
    let call = Call::parse(&body)?;
    let at = call.at(gate.testing)?;
    let owned = call.owned(MAX_KEY, apart)?;
    let requests: Vec<_> = owned.iter().map(Owned::request).collect();
    let asks = call.told().map(|told| told.map(|(op, cost)| ask(op, cost))).collect::<Result<Vec<_>, _>>()?;
    let answers = match call.mode() {
        Mode::Each => {
            let answers = each(&gate, &requests, at).await;
            let seen = asks.iter().zip(&answers);
            seen.for_each(|(ask, answer)| gate.watch.saw(ask, &answer.clone().map_err(Error::Store)));
            answers
        }
        Mode::All => {
            let answer = all(&gate, &requests, at).await;
            gate.watch.saw_all(&asks, answer.as_ref().map_err(|error| Error::Store(error.clone())));
            match answer {
                Ok(all) => all.into_decisions().into_iter().map(Ok).collect(),
                Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
            }
        }
    };
    Ok(body::answer_text(Answers::new(&answers).to_json()))
}

/// What is seen of a request: whose limit and key it is about is the caller's own matter.
fn ask(op: Op, cost: u64) -> Ask<'static> {
    Ask { op, limit: APPLY, key: Key::GLOBAL, cost, quota: None, whole_key: None }
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
