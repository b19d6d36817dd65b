//! The JSON routes that decide: one key, several keys, leases and Envoy's requests; and their fast path.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use tidegate::api::{
    AdmitRequest, AdmitResponse, BatchRequest, BatchResponse, DecisionResponse, JointResponse, LeaseToken,
    LimitRequest, MAX_BATCH_BODY_BYTES, MAX_BODY_BYTES, Op, Problem, ReleaseRequest, RenewRequest, RenewResponse,
    is_lease_held, parse,
};
use tidegate::{Decision, Key};

use super::super::access::{Access, Origin};
use super::super::envoy::{self, Code};
use super::{JSON, body_problem, json_response, json_text_response, metrics, read};
use crate::app::App;
use crate::net::body::{RequestBody, ResponseBody, read_body};
use crate::net::charged_body::ChargedRequestBody;
use crate::net::http_server::FastPath;
use crate::request::DecisionRequest;

const ENVOY_EXAMPLE: &str = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/login"}]}]}"#;

/// The fast path of `POST /v1/limit` and `/v1/check`. Unusual requests go to the router.
#[derive(Clone)]
pub(crate) struct DecisionFastPath {
    pub(crate) app: Arc<App>,
    pub(crate) access: Access,
}

impl FastPath for DecisionFastPath {
    fn try_answer(
        &self,
        request: http::Request<ChargedRequestBody>,
    ) -> Result<impl Future<Output = http::Response<ResponseBody>> + Send + use<>, http::Request<ChargedRequestBody>>
    {
        let op = match request.uri().path() {
            "/v1/limit" => Op::Limit,
            "/v1/check" => Op::Check,
            _ => return Err(request),
        };
        if *request.method() != Method::POST || self.access.check(&request, Origin::SameSite).is_err() {
            return Err(request);
        }
        let app = Arc::clone(&self.app);
        Ok(async move {
            match decide_body(op, &app, request.into_body()).await {
                Ok(reply) => {
                    let mut response = http::Response::new(ResponseBody::full(reply.to_json()));
                    response.headers_mut().insert(CONTENT_TYPE, JSON);
                    response
                }
                Err(problem) => problem.into_response().map(ResponseBody::routed),
            }
        })
    }
}

/// `POST /v1/limit`, `/v1/check`, `/v1/reserve`, `/v1/refund` and `/v1/reset`.
pub(super) async fn decide(op: Op, State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    Ok(json_text_response(decide_body(op, &app, request.into_body()).await?.to_json()))
}

async fn decide_body(op: Op, app: &App, body: impl RequestBody) -> Result<DecisionResponse, Problem> {
    let body = read_body(body, MAX_BODY_BYTES).await.map_err(|error| body_problem(error, MAX_BODY_BYTES))?;
    let wire: LimitRequest<'_> = parse(&body, LimitRequest::EXAMPLE)?;
    let request = DecisionRequest::new(op, &wire.limit, wire.key.checked()?).with_cost(wire.cost.0);
    match app.decide(&request).await {
        Ok(decision) => Ok(DecisionResponse::from(&decision)),
        Err(error) => Err(Problem::from(&error)),
    }
}

async fn decision(app: &App, request: &DecisionRequest<'_>) -> Result<Decision, Problem> {
    app.decide(request).await.map_err(|error| Problem::from(&error))
}

/// `POST /v1/all`: takes all or nothing.
pub(super) async fn limit_all(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let body = read(request.into_body(), MAX_BATCH_BODY_BYTES).await?;
    let batch = BatchRequest::parse(&body)?;
    let joint = app.decide_jointly(&decision_requests(&batch, &app)?).await.map_err(|error| Problem::from(&error))?;
    Ok(json_response(&JointResponse::from(&joint)))
}

/// `POST /v1/batch`: decides about each on its own, in order.
pub(super) async fn batch(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let body = read(request.into_body(), MAX_BATCH_BODY_BYTES).await?;
    let batch = BatchRequest::parse(&body)?;
    let results = app.decide_batch(&decision_requests(&batch, &app)?).await;
    Ok(json_response(&BatchResponse::new(&results, |error| Problem::from(error))))
}

/// Checks that every request is valid before the first is decided.
fn decision_requests<'a>(batch: &'a BatchRequest<'_>, app: &App) -> Result<Vec<DecisionRequest<'a>>, Problem> {
    let request = |wire: &'a LimitRequest<'_>| {
        Ok(DecisionRequest::new(Op::Limit, &wire.limit, wire.key.checked()?).with_cost(wire.cost.0))
    };
    let requests: Vec<_> = batch.requests.iter().map(request).collect::<Result<_, Problem>>()?;
    for request in &requests {
        app.limiter.quota(request.limit).map_err(|error| Problem::from(&error))?;
    }
    Ok(requests)
}

/// `POST /v1/admit`: acquires a lease of a concurrency limit.
pub(super) async fn admit(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let body = read(request.into_body(), MAX_BODY_BYTES).await?;
    let place: AdmitRequest<'_> = parse(&body, AdmitRequest::EXAMPLE)?;
    let (limit, key) = (&*place.limit, place.key.checked()?);
    let lease = app.limiter.admit(limit, &key).requested_lease();
    let decision = decision(&app, &DecisionRequest::new(Op::Admit(lease), limit, key.borrow())).await?;
    let held = LeaseToken { lease, limit: limit.into(), key: key.to_text() };
    Ok(json_response(&AdmitResponse::new(&decision, &held, app.limiter.quota(limit).ok().as_ref())))
}

/// `POST /v1/renew`: extends a lease.
pub(super) async fn renew(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let body = read(request.into_body(), MAX_BODY_BYTES).await?;
    let RenewRequest { lease } = parse(&body, LeaseToken::EXAMPLE)?;
    let (held, key): (_, Key<'_>) = LeaseToken::read(&lease)?;
    let decision = decision(&app, &DecisionRequest::new(Op::Renew(held.lease), &held.limit, key)).await?;
    Ok(json_response(&RenewResponse::new(&decision, app.limiter.quota(&held.limit).ok().as_ref())))
}

/// `POST /v1/release`: releases a lease.
pub(super) async fn release(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let body = read(request.into_body(), MAX_BODY_BYTES).await?;
    let released: ReleaseRequest<'_> = parse(&body, LeaseToken::EXAMPLE)?;
    let ((held, key), completion) = (LeaseToken::read(&released.lease)?, released.completion()?);
    let decision = decision(&app, &DecisionRequest::new(Op::Release(held.lease), &held.limit, key)).await?;
    if is_lease_held(&decision) {
        metrics::record_release(&held.limit, completion);
    }
    Ok(json_text_response(DecisionResponse::from(&decision).to_json()))
}

/// `POST /json`: Envoy's rate limit request as JSON. 200 if it passes, 429 over a limit.
pub(super) async fn envoy_json(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let body = read(request.into_body(), MAX_BODY_BYTES).await?;
    let wire: envoy::json::JsonRequest<'_> = parse(&body, ENVOY_EXAMPLE)?;
    let descriptors =
        envoy::json::descriptors(&wire.domain, &wire.descriptors, wire.hits_addend).map_err(Problem::internal)?;
    let verdict = envoy::decide_active(&app, &wire.domain, &descriptors).await.map_err(|e| Problem::from(&e))?;
    let code = verdict.code;
    let mut response = json_response(&envoy::json::JsonResponse::from(verdict));
    if code == Code::OverLimit {
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    Ok(response)
}
