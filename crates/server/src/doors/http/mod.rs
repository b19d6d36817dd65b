//! The HTTP door: the JSON API, forward-auth for proxies, metrics, health and the dashboard.

mod apply;
mod dashboard;
mod decisions;
mod forward_auth;
mod metrics;

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body::Body;
use serde::Serialize;
use serde_json::json;
use tidegate::api::{LimitsResponse, Op, Problem};

use super::access::{Access, AccessError, Origin};
use crate::app::App;
use crate::net::body::{BodyError, read_body};
pub(crate) use decisions::DecisionFastPath;

/// The routes of the HTTP door. With a token, only its owner may call them, except for health and the dashboard's page, which
/// asks for the token.
pub(crate) fn router(app: Arc<App>, access: Access) -> Router {
    metrics::describe();
    let decide = |op| post(move |state, request| decisions::decide(op, state, request));
    let api = Router::new()
        .route("/v1/limit", decide(Op::Limit))
        .route("/v1/check", decide(Op::Check))
        .route("/v1/reserve", decide(Op::Reserve))
        .route("/v1/refund", decide(Op::Refund))
        .route("/v1/reset", decide(Op::Reset))
        .route("/v1/admit", post(decisions::admit))
        .route("/v1/renew", post(decisions::renew))
        .route("/v1/release", post(decisions::release))
        .route("/v1/all", post(decisions::limit_all))
        .route("/v1/batch", post(decisions::batch))
        .route("/v1/apply", post(apply::apply))
        .route("/json", post(decisions::envoy_json));
    let mut for_proxies = Router::new().route("/v1/auth", get(forward_auth::auth));
    let mut readable = Router::new()
        .route("/v1/limits", get(limits))
        .route("/metrics", get(metrics::page))
        .route("/dashboard/data", get(dashboard::data));
    if app.config.load().is_demo {
        for_proxies = for_proxies.route("/api/protected", get(forward_auth::demo_protected));
        readable = readable.route("/api/data", get(forward_auth::demo_data));
    }
    let open =
        Router::new().route("/healthz", get(healthz)).route("/health", get(health)).route("/readyz", get(readyz));
    guarded(api, &access, Origin::SameSite)
        .merge(guarded(for_proxies, &access, Origin::SameSiteOrProxy))
        .merge(guarded(readable, &access, Origin::Any))
        .merge(open)
        .merge(dashboard::pages())
        .fallback(async || Problem::not_found("there is nothing at this path"))
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(app)
}

/// Lets only requests pass that [`Access`] allows.
fn guarded(router: Router<Arc<App>>, access: &Access, origin: Origin) -> Router<Arc<App>> {
    let access = access.clone();
    router.layer(from_fn(move |request: Request, next: Next| {
        let allowed = access.check(&request, origin);
        async move {
            match allowed {
                Ok(()) => next.run(request).await,
                Err(AccessError::Unauthorized) => Problem::unauthorized().into_response(),
                Err(AccessError::CrossSite(problem)) => problem.into_response(),
            }
        }
    }))
}

/// Reads the body of a request.
async fn read<B>(body: B, max_bytes: usize) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    read_body(body, max_bytes).await.map_err(|error| body_problem(error, max_bytes))
}

fn body_problem(error: BodyError, max_bytes: usize) -> Problem {
    match error {
        BodyError::TooLarge => Problem::too_large(max_bytes),
        BodyError::TooSlow => Problem::too_slow(),
        BodyError::Broken(error) => Problem::bad_request(format!("the body cannot be read: {error}")),
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Serializes a response as JSON.
fn json_response(value: &impl Serialize) -> Response {
    json_text_response(serde_json::to_vec(value).expect("numbers and strings are JSON"))
}

/// Responds with text that is JSON already.
fn json_text_response(text: Vec<u8>) -> Response {
    let mut response = Bytes::from(text).into_response();
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// The limits that are served.
async fn limits(State(app): State<Arc<App>>) -> Response {
    json_response(&app.config.load().limits().collect::<LimitsResponse>())
}

/// Whether the process is alive.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the process is alive, as JSON.
async fn health() -> Response {
    json_response(&json!({"status": "ok"}))
}

/// Whether a balancer should send requests: not once the server is about to end.
async fn readyz(State(app): State<Arc<App>>) -> (StatusCode, &'static str) {
    if app.is_draining() { (StatusCode::SERVICE_UNAVAILABLE, "ending\n") } else { (StatusCode::OK, "ready\n") }
}

#[cfg(test)]
mod tests {
    use tidegate::MemoryStore;
    use tidegate::api::MAX_BODY_BYTES;
    use tokio::time::Instant;

    use super::*;
    use crate::app::config::ActiveConfig;
    use crate::app::store::AppStore;

    #[tokio::test]
    async fn a_draining_server_is_not_ready() {
        let store = AppStore::Memory(Arc::new(MemoryStore::builder().max_keys(1_000).build()));
        let config = ActiveConfig::load(None).expect("the built-in config");
        let app = Arc::new(App::new(store, config, false).expect("an app"));
        assert_eq!(readyz(State(Arc::clone(&app))).await, (StatusCode::OK, "ready\n"));
        app.drain();
        assert_eq!(readyz(State(app)).await, (StatusCode::SERVICE_UNAVAILABLE, "ending\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_times_out_after_ten_seconds() {
        let silence = axum::body::Body::from_stream(futures_util::stream::pending::<Result<Bytes, axum::Error>>());
        let started = Instant::now();
        let problem = read(silence, MAX_BODY_BYTES).await.expect_err("nothing to read");
        assert_eq!((problem.into_response().status().as_u16(), started.elapsed().as_secs()), (408, 10));
    }
}
