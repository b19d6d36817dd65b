//! Two paths to try a limit with, while the built-in config is served.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode, Uri};
use serde_json::json;

use super::body;
use super::forward_auth::pass;
use crate::json::{Problem, same_site_or_proxy};
use crate::serve::gate::Gate;

/// The limit of the built-in config that `protected` meets: 2 per second for each client.
const PROTECTED: &str = "protected";

/// Never limited.
pub(super) async fn data(State(gate): State<Arc<Gate>>) -> Result<Response, Problem> {
    only_in_the_demo(&gate)?;
    Ok(body::answer(&json!({"data": "anybody may have this, as often as they like"})))
}

/// Limited for each client.
pub(super) async fn protected(
    State(gate): State<Arc<Gate>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    only_in_the_demo(&gate)?;
    same_site_or_proxy(&uri, &headers)?;
    let client = gate.client(peer.ip(), &headers);
    let mut response = pass(&gate, PROTECTED, client.key(), 1, &client).await?;
    if response.status() == StatusCode::NO_CONTENT {
        let admitted = body::answer(&json!({"data": "twice a second for each client"}));
        let limits = std::mem::replace(&mut response, admitted);
        response.headers_mut().extend(limits.into_parts().0.headers);
    }
    Ok(response)
}

fn only_in_the_demo(gate: &Gate) -> Result<(), Problem> {
    if gate.served.load().is_demo {
        return Ok(());
    }
    Err(Problem::not_found("this is there only while the built-in demonstration is served (no --config)"))
}
