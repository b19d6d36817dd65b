//! A whole Worker: serves Tidegate's HTTP API with the limits in its settings, so that anything can ask the edge.
//!
//! What it is told, and how it is deployed, is in `docs/workers.md` in the repository.
#![forbid(unsafe_code)]

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use worker::{Context, Env, HttpRequest, Result, event};

// The class of the objects, which the configuration binds.
pub use tidegate_worker::RateLimiter;

/// Answers every request.
#[event(fetch)]
async fn fetch(request: HttpRequest, env: Env, _: Context) -> Result<Response<Full<Bytes>>> {
    tidegate_worker::serve(request, &env).await
}
