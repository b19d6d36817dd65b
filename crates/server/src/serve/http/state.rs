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

#[cfg(test)]
mod tests {
    use tidegate::MemoryStore;

    use super::*;
    use crate::serve::Served;
    use crate::serve::store::Backing;

    #[tokio::test]
    async fn it_is_ready_until_it_is_about_to_end() {
        let backing = Backing::Memory(Arc::new(MemoryStore::builder().max_keys(1_000).build()));
        let gate =
            Arc::new(Gate::new(backing, Served::load(None).expect("the built-in config"), false).expect("a gate"));
        assert_eq!(readyz(State(Arc::clone(&gate))).await, (StatusCode::OK, "ready\n"));
        gate.drain();
        assert_eq!(readyz(State(gate)).await, (StatusCode::SERVICE_UNAVAILABLE, "ending\n"));
    }
}
