//! Forward authentication for proxies such as Traefik and Caddy, and the routes of the demonstration.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode, Uri};
use serde_json::json;
use tidegate::api::{AuthRequest, Op, Problem};
use tidegate::enforce::{Action, Caller, Outcome};
use tidegate::http::Client;
use tidegate::{Error, Key};

use super::json_response;
use crate::app::App;
use crate::request::DecisionRequest;

/// The limit of the built-in config behind `/api/protected`: 2 per second for each client.
const DEMO_PROTECTED: &str = "protected";

/// `GET /v1/auth`: 204 with the headers of the limit, or the denial, which the proxy passes on. The key defaults to the
/// client's address.
pub(super) async fn auth(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let wire = AuthRequest::parse(uri.query())?;
    // The enforcer would take an unknown limit for a mistake of this program.
    app.limiter.quota(&wire.limit).map_err(|error| Problem::from(&error))?;
    let (key, client) = match &wire.key {
        // No client is limited by its address here, so there is nothing to warn about.
        Some(key) => (Key::from(key.as_str()), app.config.load().client_address.find(peer.ip(), &headers)),
        None => {
            let client = app.client(peer.ip(), &headers);
            (client.key().to_fallback(), client)
        }
    };
    enforce(&app, &DecisionRequest::new(Op::Limit, &wire.limit, key).with_cost(wire.cost.get()), &client).await
}

/// Answers 204 with the headers of the limit, or the denial.
async fn enforce(app: &App, request: &DecisionRequest<'_>, client: &Client) -> Result<Response, Problem> {
    let caller = Caller::new(request.key.borrow()).with_address(client.address());
    let outcome = match app.limiter.enforcer(request.limit) {
        Ok(enforcer) => enforcer.apply(&caller, request.cost, Action::Limit).await,
        Err(error) => Outcome::Invalid(error.into()),
    };
    let result = match (&outcome, outcome.limit_decisions()) {
        (Outcome::Unavailable(error) | Outcome::Invalid(error), _) => Err(error.clone()),
        (_, [limit, ..]) => Ok(*limit.decision()),
        (_, []) => Err(Error::NoKey),
    };
    app.stats.record(request, &result);
    let policy = &app.config.load().http_policy;
    match &outcome {
        Outcome::Invalid(error) => Err(Problem::from(error)),
        Outcome::Allowed(_) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            policy.write_headers(&outcome, response.headers_mut());
            Ok(response)
        }
        _ => Ok(policy.response(&outcome).map(Body::from)),
    }
}

/// `GET /api/data` of the demonstration, which is never limited.
pub(super) async fn demo_data() -> Response {
    json_response(&json!({"data": "anybody may have this, as often as they like"}))
}

/// `GET /api/protected` of the demonstration, limited for each client.
pub(super) async fn demo_protected(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let client = app.client(peer.ip(), &headers);
    let mut response = enforce(&app, &DecisionRequest::new(Op::Limit, DEMO_PROTECTED, client.key()), &client).await?;
    if response.status() == StatusCode::NO_CONTENT {
        let admitted = json_response(&json!({"data": "twice a second for each client"}));
        let limits = std::mem::replace(&mut response, admitted);
        response.headers_mut().extend(limits.into_parts().0.headers);
    }
    Ok(response)
}
