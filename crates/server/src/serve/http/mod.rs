//! The HTTP API.

mod apply;
mod at_once;
mod body;
mod dashboard;
mod decide;
mod demo;
mod envoy;
mod forward_auth;
mod guard;
mod leases;
mod limits;
mod metrics;
mod several;
mod state;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

pub(crate) use at_once::Decisions;
pub(crate) use body::{Broken, in_time};

use super::auth::Token;
use super::gate::Gate;
use crate::json::Op;
use tidegate::api::Problem;

/// Everything that is answered over HTTP. With a token, only to those who show it, but for whether the server lives and
/// the dashboard's page, which asks for it.
pub(crate) fn router(gate: Arc<Gate>, token: Option<Token>) -> Router {
    let decide = |op| post(move |state, request| decide::decide(op, state, request));
    let api = Router::new()
        .route("/v1/limit", decide(Op::Limit))
        .route("/v1/check", decide(Op::Check))
        .route("/v1/reserve", decide(Op::Reserve))
        .route("/v1/refund", decide(Op::Refund))
        .route("/v1/reset", decide(Op::Reset))
        .route("/v1/admit", post(leases::admit))
        .route("/v1/renew", post(leases::renew))
        .route("/v1/release", post(leases::release))
        .route("/v1/all", post(several::all))
        .route("/v1/batch", post(several::batch))
        .route("/v1/apply", post(apply::apply))
        .route("/v1/auth", get(forward_auth::auth))
        .route("/v1/limits", get(limits::limits))
        .route("/json", post(envoy::envoy))
        .route("/metrics", get(metrics::page))
        .route("/dashboard/data", get(dashboard::data))
        .route("/api/data", get(demo::data))
        .route("/api/protected", get(demo::protected));
    let open = Router::new()
        .route("/healthz", get(state::healthz))
        .route("/health", get(state::health))
        .route("/readyz", get(state::readyz));
    guard::guarded(api, token)
        .merge(open)
        .merge(dashboard::pages())
        .fallback(async || Problem::not_found("there is nothing at this path"))
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(gate)
}
