//! axum handlers with `#[limit]` and without a layer.

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get as on_get;
use tidegate::attribute::LimitError;
use tidegate::{Limiter, limit};

use crate::layers::{get, header, text};
use crate::support::limiter;

#[limit("login", key = user, limiter = limiter)]
async fn result(Path(user): Path<String>, State(limiter): State<Limiter>) -> Result<String, LimitError> {
    Ok(user)
}

#[limit("login", key = user, limiter = limiter)]
async fn response(Path(user): Path<String>, State(limiter): State<Limiter>) -> Response {
    user.into_response()
}

#[limit("login", key = user, limiter = limiter)]
async fn result_of_responses(
    Path(user): Path<String>,
    State(limiter): State<Limiter>,
) -> Result<impl IntoResponse, Response> {
    Ok((StatusCode::OK, user))
}

#[limit("login", key = user, limiter = limiter)]
async fn impl_into_response(Path(user): Path<String>, State(limiter): State<Limiter>) -> impl IntoResponse {
    if user.is_empty() {
        return (StatusCode::NOT_FOUND, user);
    }
    (StatusCode::OK, user)
}

enum AppError {
    Limited(LimitError),
}

impl From<LimitError> for AppError {
    fn from(error: LimitError) -> Self {
        AppError::Limited(error)
    }
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        let AppError::Limited(error) = self;
        (StatusCode::IM_A_TEAPOT, error).into_response()
    }
}

#[limit("login", key = user, limiter = limiter.0)]
async fn own_error(Path(user): Path<String>, limiter: State<Limiter>) -> Result<String, AppError> {
    let State(_) = limiter;
    Ok(user)
}

/// A whole request is `Send` and not `Sync`, and axum needs `Send` futures.
#[limit("login", key = request.uri().path(), limiter = limiter)]
async fn whole_request(State(limiter): State<Limiter>, request: Request) -> Result<String, LimitError> {
    Ok(request.uri().path().trim_start_matches("/whole_request/").to_owned())
}

fn app(limiter: &Limiter) -> Router {
    Router::new()
        .route("/result/{user}", on_get(result))
        .route("/response/{user}", on_get(response))
        .route("/result_of_responses/{user}", on_get(result_of_responses))
        .route("/impl_into_response/{user}", on_get(impl_into_response))
        .route("/own_error/{user}", on_get(own_error))
        .route("/whole_request/{user}", on_get(whole_request))
        .with_state(limiter.clone())
}

#[test]
fn denied_handler_responds_like_a_layer() {
    for path in ["result", "response", "result_of_responses", "impl_into_response", "whole_request"] {
        let limiter = limiter(&[("login", 1)]);
        let (app, path) = (app(&limiter), format!("/{path}/alice"));
        let admitted = get(&app, &path);
        assert_eq!(admitted.status(), 200, "{path}");
        assert_eq!(text(admitted), "alice", "{path}");

        let refused = get(&app, &path);
        assert_eq!(refused.status(), 429, "{path}");
        assert_eq!(header(&refused, "content-type"), "application/problem+json", "{path}");
        assert!(header(&refused, "ratelimit").starts_with("\"login\";r=0;"), "{path}");
        let wait: u64 = header(&refused, "retry-after").parse().unwrap();
        assert!((1..=60).contains(&wait), "{path}: {wait}");
        assert!(text(refused).contains("\"violated-policies\":[\"login\"]"), "{path}");
    }
}

#[test]
fn custom_error_sets_the_response() {
    let limiter = limiter(&[("login", 1)]);
    let app = app(&limiter);
    assert_eq!(get(&app, "/own_error/alice").status(), 200);
    let refused = get(&app, "/own_error/alice");
    assert_eq!(refused.status(), 418);
    assert!(header(&refused, "ratelimit").starts_with("\"login\";r=0;"));
}
