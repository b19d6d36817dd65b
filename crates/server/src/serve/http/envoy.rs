//! Envoy's rate limit request as JSON.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;

use super::body;
use crate::json::Problem;
use crate::serve::envoy::{Code, decide_served, json};
use crate::serve::gate::Gate;

const EXAMPLE: &str = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/login"}]}]}"#;

/// 200 when it passes, 429 when it is over a limit.
pub(super) async fn envoy(State(gate): State<Arc<Gate>>, request: Request) -> Result<Response, Problem> {
    let body = body::read(request, body::ONE).await?;
    let request: json::Request<'_> = body::parse(&body, EXAMPLE)?;
    let asked = json::asked(&request.domain, &request.descriptors, request.hits_addend).map_err(Problem::internal)?;
    let verdict = decide_served(&gate, &request.domain, &asked).await.map_err(|error| Problem::from(&error))?;
    let code = verdict.code;
    let mut response = body::answer(&json::Response::from(verdict));
    if code == Code::OverLimit {
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    Ok(response)
}
