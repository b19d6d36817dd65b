//! Whether the server lives, and whether it wants to be asked.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::body;
use crate::serve::gate::Gate;

/// Whether it lives.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// The same, as the demonstration has it.
pub(super) async fn health() -> Response {
    body::answer(&json!({"status": "ok"}))
}

/// Whether it wants to be asked: not once it is about to end.
pub(super) async fn readyz(State(gate): State<Arc<Gate>>) -> (StatusCode, &'static str) {
    if gate.is_draining() { (StatusCode::SERVICE_UNAVAILABLE, "ending\n") } else { (StatusCode::OK, "ready\n") }
}
