//! A ready-to-deploy Cloudflare Worker that serves Tidegate's HTTP API, with the limits in its settings.
//!
//! Its settings and its deployment are described in `docs/book/src/how-to/workers.md` in the repository.
#![forbid(unsafe_code)]

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use worker::{Context, Env, HttpRequest, Result, event};

// The class of the Durable Objects, which wrangler.toml binds.
pub use tidegate_worker::RateLimiter;

/// Handles every request.
#[event(fetch)]
async fn fetch(request: HttpRequest, env: Env, _: Context) -> Result<Response<Full<Bytes>>> {
    tidegate_worker::serve(request, &env).await
}
