//! The limits that are served.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::body;
use crate::json::Limits;
use crate::serve::gate::Gate;

pub(super) async fn limits(State(gate): State<Arc<Gate>>) -> Response {
    body::answer(&gate.served.load().limits().collect::<Limits>())
}
