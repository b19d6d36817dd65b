//! `POST /v1/apply`: the store contract for remote stores. Each request carries its quota; times are in microseconds.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use tidegate::api::apply::{ApplyMode, ApplyRequest, ApplyResponse, OwnedRequest};
use tidegate::api::{MAX_BATCH_BODY_BYTES, MAX_KEY_BYTES, Op, Problem};
use tidegate::{Decision, Error, JointDecision, Key, Store, StoreError, StoreErrorKind, Timestamp};

use super::{json_text_response, read};
use crate::app::App;
use crate::app::config::{APPLY, isolate_prefix};
use crate::request::DecisionRequest;

pub(super) async fn apply(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let body = read(request.into_body(), MAX_BATCH_BODY_BYTES).await?;
    let call = ApplyRequest::parse(&body)?;
    let at = call.at(app.is_testing)?;
    let owned = call.to_owned_requests(MAX_KEY_BYTES, isolate_prefix)?;
    let requests: Vec<_> = owned.iter().map(OwnedRequest::request).collect();
    let recorded =
        call.operations().map(|told| told.map(|(op, cost)| stats_request(op, cost))).collect::<Result<Vec<_>, _>>()?;
    let results = match call.mode() {
        ApplyMode::Each => {
            let results = apply_each(&app, &requests, at).await;
            let pairs = recorded.iter().zip(&results);
            pairs.for_each(|(request, result)| app.stats.record(request, &result.clone().map_err(Error::Store)));
            results
        }
        ApplyMode::All => {
            let joint = apply_all(&app, &requests, at).await;
            app.stats.record_joint(&recorded, joint.as_ref().map_err(|error| Error::Store(error.clone())));
            match joint {
                Ok(all) => all.into_decisions().into_iter().map(Ok).collect(),
                Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
            }
        }
    };
    let results: Vec<_> = results.into_iter().map(|result| result.map_err(without_details)).collect();
    Ok(json_text_response(ApplyResponse::new(&results).to_json()))
}

/// Removes the message of a broken store, which can name files and hosts.
fn without_details(error: StoreError) -> StoreError {
    match error.kind() {
        StoreErrorKind::Unsupported => error,
        kind => StoreError::new(kind, "the log of the server has the details"),
    }
}

/// A request as the statistics see it: limits and keys are the remote store's own.
fn stats_request(op: Op, cost: u64) -> DecisionRequest<'static> {
    DecisionRequest::new(op, APPLY, Key::GLOBAL).with_cost(cost)
}

async fn apply_each(
    app: &App,
    requests: &[tidegate::store::Request<'_>],
    at: Option<Timestamp>,
) -> Vec<Result<Decision, StoreError>> {
    let Some(at) = at else { return app.store.as_dyn().apply_each(requests).await };
    let mut results = Vec::with_capacity(requests.len());
    for request in requests {
        results.push(app.store.apply_at(request, at).await);
    }
    results
}

async fn apply_all(
    app: &App,
    requests: &[tidegate::store::Request<'_>],
    at: Option<Timestamp>,
) -> Result<JointDecision, StoreError> {
    match at {
        None => app.store.as_dyn().apply_all(requests).await,
        Some(at) => app.store.apply_all_at(requests, at).await,
    }
}
