//! `GET /metrics`, for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;

use crate::serve::gate::Gate;
use crate::serve::watch::recorder;

/// All metrics as they are now.
pub(super) async fn page(State(gate): State<Arc<Gate>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], recorder::render(&gate))
}
