//! Tidegate's HTTP API, as a Worker answers it.

mod access;
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

use crate::object::DIFFERENT;
use crate::settings::Access;
use crate::store::{Objects, Sharded};

/// Tidegate's HTTP API, over limits and the objects they live in.
pub(crate) struct Api<P> {
    pub(crate) limiter: Limiter,
    /// The objects, with what is to happen when one does not answer.
    pub(crate) guarded: Arc<dyn DynStore>,
    /// The objects alone, for tests that say the time.
    pub(crate) store: Sharded<P>,
    /// Where the address of a client is, for those who ask as a proxy does.
    pub(crate) addresses: ClientAddress,
    /// The limits that can be asked for, by name.
    pub(crate) limits: Vec<(String, Limit)>,
    /// What those are answered who ask as a proxy does.
    pub(crate) answers: RateLimit,
    pub(crate) access: Access,
    /// Whether whoever asks may pass the time.
    pub(crate) testing: bool,
}

/// Whether the Worker lives, which everybody may ask.
const ALIVE: [&str; 2] = ["/healthz", "/readyz"];
const LOOKED_AT: [&str; 2] = ["/v1/auth", "/v1/limits"];
const ASKED: [&str; 8] =
    ["/v1/limit", "/v1/check", "/v1/reserve", "/v1/refund", "/v1/reset", "/v1/admit", "/v1/renew", "/v1/release"];
const SEVERAL: [&str; 3] = ["/v1/all", "/v1/batch", "/v1/apply"];
/// For tests only.
const SWEEP: &str = "/v1/testing/sweep";

pub(crate) type Answer = Response<Vec<u8>>;

impl<P: Objects> Api<P> {
    /// Answers a request.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let (head, body) = request.into_parts();
        let answer = self.route(&head, body).await;
        answer.unwrap_or_else(|problem| problem.to_response().map(String::into_bytes))
    }

    async fn route<B>(&self, head: &Parts, body: B) -> Result<Answer, Problem>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let path = head.uri.path();
        if !ALIVE.contains(&path) {
            self.access.check(&head.headers)?;
        }
        let (method, most) = match path {
            path if ALIVE.contains(&path) || LOOKED_AT.contains(&path) => (Method::GET, 0),
            path if ASKED.contains(&path) => (Method::POST, api::MAX_BODY_BYTES),
            path if SEVERAL.contains(&path) => (Method::POST, api::MAX_BATCH_BODY_BYTES),
            SWEEP if self.testing => (Method::POST, api::MAX_BODY_BYTES),
            _ => return Err(Problem::not_found("there is nothing at this path")),
        };
        let is_asked = head.method == method || (method == Method::GET && head.method == Method::HEAD);
        if !is_asked {
            return Ok(with_allow(Problem::method_not_allowed(), &method));
        }
        if method == Method::GET {
            return match path {
                "/v1/auth" => self.auth(head).await,
                "/v1/limits" => Ok(json(&self.limits.iter().cloned().collect::<LimitsResponse>())),
                "/readyz" => Ok(plain("ready\n")),
                _ => Ok(plain("ok\n")),
            };
        }
        same_site(&head.uri, &head.headers)?;
        let body = read(body, most).await?;
        match path {
            "/v1/limit" => self.decide(Op::Limit, &body).await,
            "/v1/check" => self.decide(Op::Check, &body).await,
            "/v1/reserve" => self.decide(Op::Reserve, &body).await,
            "/v1/refund" => self.decide(Op::Refund, &body).await,
            "/v1/reset" => self.decide(Op::Reset, &body).await,
            "/v1/admit" => self.admit(&body).await,
            "/v1/renew" => self.renew(&body).await,
            "/v1/release" => self.release(&body).await,
            "/v1/all" => self.all(&body).await,
            "/v1/batch" => self.batch(&body).await,
            "/v1/apply" => self.apply(&body).await,
            _ => self.sweep(&body).await,
        }
    }
}

/// All of a body, when it is not too large.
async fn read<B>(body: B, most: usize) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    match Limited::new(body, most).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::too_large(most)),
        Err(error) => Err(Problem::bad_request(format!("the body cannot be read: {error}"))),
    }
}

/// What is wrong, to whoever asks. How a Worker is set up is not their mistake.
fn problem(error: &Error) -> Problem {
    match error {
        Error::Store(store) if store.kind() == StoreErrorKind::Unsupported && store.to_string().contains(DIFFERENT) => {
            Problem::internal(error.to_string())
        }
        error => Problem::from(error),
    }
}

/// What a path is asked with instead.
fn with_allow(problem: Problem, method: &Method) -> Answer {
    let mut response = problem.to_response().map(String::into_bytes);
    let allowed = if method == Method::GET { "GET,HEAD" } else { "POST" };
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn json(value: &impl Serialize) -> Answer {
    text(serde_json::to_vec(value).expect("numbers and texts are JSON"))
}

/// An answer that is JSON already.
fn text(body: Vec<u8>) -> Answer {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn plain(text: &str) -> Answer {
    let mut response = Response::new(text.as_bytes().to_vec());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn no_content() -> Answer {
    let mut response = Response::new(Vec::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
