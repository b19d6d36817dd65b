//! Tidegate's HTTP API on a Worker.

mod apply;
mod auth;
mod decide;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use tidegate::api::{self, LimitsResponse, Op, Problem, same_site};
use tidegate::http::{ClientAddress, RateLimit};
use tidegate::store::DynStore;
use tidegate::{Error, Limit, Limiter, StoreErrorKind};

use crate::object::SHARD_MISMATCH_PREFIX;
use crate::settings::Access;
use crate::store::{ObjectClient, ShardedStore};

/// Tidegate's HTTP API over limits whose keys live in objects.
pub(crate) struct Api<P> {
    pub(crate) limiter: Limiter,
    /// The store with a timeout and the failure policies of the limits.
    pub(crate) resilient_store: Arc<dyn DynStore>,
    /// The bare store, for tests that pass in the time.
    pub(crate) store: ShardedStore<P>,
    /// The rules that find the client address of a request to `/v1/auth`.
    pub(crate) client_address: ClientAddress,
    /// The limits of the config, by name.
    pub(crate) limits: Vec<(String, Limit)>,
    /// The writer of responses to `/v1/auth`.
    pub(crate) rate_limit: RateLimit,
    pub(crate) access: Access,
    /// Whether clients may pass in the time.
    pub(crate) testing: bool,
}

/// The health checks, which need no token.
const HEALTH_PATHS: [&str; 2] = ["/healthz", "/readyz"];
const GET_PATHS: [&str; 2] = ["/v1/auth", "/v1/limits"];
const POST_PATHS: [&str; 8] =
    ["/v1/limit", "/v1/check", "/v1/reserve", "/v1/refund", "/v1/reset", "/v1/admit", "/v1/renew", "/v1/release"];
const BATCH_PATHS: [&str; 3] = ["/v1/all", "/v1/batch", "/v1/apply"];
/// A path for tests only.
const SWEEP_PATH: &str = "/v1/testing/sweep";

pub(crate) type ApiResponse = Response<Vec<u8>>;

impl<P: ObjectClient> Api<P> {
    /// Handles a request.
    pub(crate) async fn handle<B>(&self, request: Request<B>) -> ApiResponse
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let (head, body) = request.into_parts();
        let response = self.route(&head, body).await;
        response.unwrap_or_else(|problem| problem.to_response().map(String::into_bytes))
    }

    async fn route<B>(&self, head: &Parts, body: B) -> Result<ApiResponse, Problem>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let path = head.uri.path();
        if !HEALTH_PATHS.contains(&path) {
            self.access.check(&head.headers)?;
        }
        let (method, max_bytes) = match path {
            path if HEALTH_PATHS.contains(&path) || GET_PATHS.contains(&path) => (Method::GET, 0),
            path if POST_PATHS.contains(&path) => (Method::POST, api::MAX_BODY_BYTES),
            path if BATCH_PATHS.contains(&path) => (Method::POST, api::MAX_BATCH_BODY_BYTES),
            SWEEP_PATH if self.testing => (Method::POST, api::MAX_BODY_BYTES),
            _ => return Err(Problem::not_found("there is nothing at this path")),
        };
        let is_allowed = head.method == method || (method == Method::GET && head.method == Method::HEAD);
        if !is_allowed {
            return Ok(with_allow(Problem::method_not_allowed(), &method));
        }
        if method == Method::GET {
            return match path {
                "/v1/auth" => self.auth(head).await,
                "/v1/limits" => Ok(json(&self.limits.iter().cloned().collect::<LimitsResponse>())),
                "/readyz" => Ok(plain_text("ready\n")),
                _ => Ok(plain_text("ok\n")),
            };
        }
        same_site(&head.uri, &head.headers)?;
        let body = read_body(body, max_bytes).await?;
        match path {
            "/v1/limit" => self.decide(Op::Limit, &body).await,
            "/v1/check" => self.decide(Op::Check, &body).await,
            "/v1/reserve" => self.decide(Op::Reserve, &body).await,
            "/v1/refund" => self.decide(Op::Refund, &body).await,
            "/v1/reset" => self.decide(Op::Reset, &body).await,
            "/v1/admit" => self.admit(&body).await,
            "/v1/renew" => self.renew(&body).await,
            "/v1/release" => self.release(&body).await,
            "/v1/all" => self.limit_all(&body).await,
            "/v1/batch" => self.batch(&body).await,
            "/v1/apply" => self.apply(&body).await,
            _ => self.sweep(&body).await,
        }
    }
}

/// Reads a body of at most `max_bytes`.
async fn read_body<B>(body: B, max_bytes: usize) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    match Limited::new(body, max_bytes).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::too_large(max_bytes)),
        Err(error) => Err(Problem::bad_request(format!("the body cannot be read: {error}"))),
    }
}

/// Converts an error for the client. Bad settings of the Worker are not the client's mistake.
fn to_problem(error: &Error) -> Problem {
    match error {
        Error::Store(store)
            if store.kind() == StoreErrorKind::Unsupported && store.to_string().contains(SHARD_MISMATCH_PREFIX) =>
        {
            Problem::internal(error.to_string())
        }
        error => Problem::from(error),
    }
}

/// Responds with a problem and the methods that the path allows.
fn with_allow(problem: Problem, method: &Method) -> ApiResponse {
    let mut response = problem.to_response().map(String::into_bytes);
    let allowed = if method == Method::GET { "GET,HEAD" } else { "POST" };
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn json(value: &impl Serialize) -> ApiResponse {
    json_bytes(serde_json::to_vec(value).expect("numbers and texts are JSON"))
}

/// Responds with a body that is JSON already.
fn json_bytes(body: Vec<u8>) -> ApiResponse {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn plain_text(text: &str) -> ApiResponse {
    let mut response = Response::new(text.as_bytes().to_vec());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn no_content() -> ApiResponse {
    let mut response = Response::new(Vec::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
