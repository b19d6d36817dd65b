//! The HTTP server: the JSON API, forward authentication for proxies, metrics, health and the dashboard.

mod apply;
mod dashboard;
mod decisions;
mod forward_auth;
mod metrics;
mod pages;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use serde_json::json;
use tidegate::api::{LimitEntry, Op, Problem};
use tokio::runtime::Handle;

use super::access::{Access, AccessError, Origin};
use crate::app::App;
use crate::net::body::{BodyError, RequestBody, read_body};
use crate::net::http_server::too_many_bytes;
pub(crate) use decisions::DecisionFastPath;
use pages::{PageRenderer, PageWriter, SharedPage};

/// The routes of the HTTP door. With a token, only its owner may call them, except for health and the dashboard's page, which
/// asks for the token.
///
/// Pages that take long are rendered on the thread `background`.
pub(crate) fn router(app: Arc<App>, access: Access, background: &Handle) -> Router {
    metrics::describe();
    let renderer = PageRenderer::new(&app, background);
    let limits_page = SharedPage::new(&renderer, render_limits);
    let metrics_page = SharedPage::new(&renderer, metrics::render);
    let dashboard_page = SharedPage::new(&renderer, dashboard::render);
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
        .route("/v1/limits", get(move || limits_page.respond((), [(CONTENT_TYPE, JSON)])))
        .route("/metrics", get(move || metrics_page.respond((), metrics::HEADERS)))
        .route("/dashboard/data", get(move |query| dashboard::data(query, dashboard_page)));
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
async fn read(body: impl RequestBody, max_bytes: usize) -> Result<Bytes, Problem> {
    read_body(body, max_bytes).await.map_err(|error| body_problem(error, max_bytes))
}

fn body_problem(error: BodyError, max_bytes: usize) -> Problem {
    match error {
        BodyError::TooLarge => Problem::too_large(max_bytes),
        BodyError::TooSlow => Problem::too_slow(),
        BodyError::NoRoom => too_many_bytes(),
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

/// Renders the limits that are served, as a [`LimitsResponse`](tidegate::api::LimitsResponse).
async fn render_limits(app: Arc<App>, (): (), mut page: PageWriter) -> PageWriter {
    let config = app.config.load_full();
    page.write(br#"{"limits":["#).await;
    for (index, limit) in config.limits().enumerate() {
        let separator: &[u8] = if index > 0 { b"," } else { b"" };
        page.write(separator).await;
        page.write(&serde_json::to_vec(&LimitEntry::from(limit)).expect("numbers and strings are JSON")).await;
    }
    page.write(b"]}").await;
    page
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
    use std::collections::HashSet;
    use std::future::{Future, poll_fn};
    use std::pin::Pin;
    use std::sync::mpsc;
    use std::task::Poll;

    use axum::body::Body;
    use http_body_util::BodyExt;
    use tidegate::MemoryStore;
    use tidegate::api::{LimitsResponse, MAX_BODY_BYTES};
    use tokio::runtime::Builder;
    use tokio::sync::oneshot;
    use tokio::time::Instant;
    use tower::ServiceExt;

    use super::*;
    use crate::app::config::ActiveConfig;
    use crate::app::store::AppStore;

    /// An app with the built-in config.
    pub(super) fn demo_app() -> Arc<App> {
        let store = AppStore::Memory(Arc::new(MemoryStore::builder().max_keys(1_000).build()));
        let config = ActiveConfig::load(None).expect("the built-in config");
        Arc::new(App::new(store, config, false).expect("an app"))
    }

    #[tokio::test]
    async fn a_draining_server_is_not_ready() {
        let app = demo_app();
        assert_eq!(readyz(State(Arc::clone(&app))).await, (StatusCode::OK, "ready\n"));
        app.drain();
        assert_eq!(readyz(State(app)).await, (StatusCode::SERVICE_UNAVAILABLE, "ending\n"));
    }

    fn get_request(path: &str) -> Request {
        Request::get(path).body(Body::empty()).expect("a request")
    }

    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
    }

    /// Holds the background thread, as a rendering without a pause would.
    #[test]
    fn decisions_are_answered_while_pages_are_rendered_and_requests_share_one() {
        let background = Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a thread");
        let (go_on, held) = mpsc::channel::<()>();
        let (tell, is_held) = oneshot::channel();
        background.spawn(async move {
            tell.send(()).expect("the test waits");
            held.recv().expect_err("the test drops it");
        });
        let deciding = Builder::new_current_thread().enable_all().build().expect("a runtime");
        deciding.block_on(async {
            is_held.await.expect("the thread is held");
            let router = router(demo_app(), Access::new(None), background.handle());
            let paths = ["/metrics", "/v1/limits", "/dashboard/data", "/dashboard/data?search=api"];
            let mut pages: Vec<_> = paths
                .iter()
                .flat_map(|path| [path; 100])
                .map(|path| router.clone().oneshot(get_request(path)))
                .collect();
            for page in &mut pages {
                assert!(poll_once(page).await.is_pending());
            }
            let body = r#"{"limit":"login","key":"ann"}"#;
            let request = Request::post("/v1/limit").body(Body::from(body)).expect("a request");
            let response = router.clone().oneshot(request).await.expect("infallible");
            let decision = response.into_body().collect().await.expect("a body").to_bytes();
            assert!(decision.starts_with(br#"{"allowed":true"#), "{decision:?}");
            assert_eq!(router.oneshot(get_request("/healthz")).await.expect("infallible").status(), StatusCode::OK);
            drop(go_on);
            let mut first_bytes = Vec::new();
            for page in pages {
                let response = page.await.expect("infallible");
                assert_eq!(response.status(), StatusCode::OK);
                let frame = response.into_body().frame().await.expect("a piece").expect("a piece");
                first_bytes.push(frame.into_data().expect("data"));
            }
            let renderings: HashSet<_> = first_bytes.iter().map(|bytes| bytes.as_ptr()).collect();
            assert_eq!(renderings.len(), paths.len(), "responses share their bytes");
        });
    }

    #[tokio::test]
    async fn limits_are_listed_as_the_api_says() {
        let app = demo_app();
        let expected = json!(app.config.load().limits().collect::<LimitsResponse>());
        let response = router(app, Access::new(None), &Handle::current()).oneshot(get_request("/v1/limits")).await;
        let body = response.expect("infallible").into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&body).expect("JSON"), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_times_out_after_ten_seconds() {
        let silence = axum::body::Body::from_stream(futures_util::stream::pending::<Result<Bytes, axum::Error>>());
        let started = Instant::now();
        let problem = read(silence, MAX_BODY_BYTES).await.expect_err("nothing to read");
        assert_eq!((problem.into_response().status().as_u16(), started.elapsed().as_secs()), (408, 10));
    }
}
