//! Whether a request may pass, for proxies that ask before they pass it on: Traefik's and Caddy's forward-auth.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode, Uri};
use tidegate::enforce::{Caller, Enforcer, Outcome, Step};
use tidegate::http::Client;
use tidegate::{Error, Key};

use crate::json::{Op, Pass, Problem, same_site_or_proxy};
use crate::serve::gate::{Ask, Gate};

/// 204, or the denial that the proxy hands on: with the headers of the limit. Without a key the client's address is it.
pub(super) async fn auth(
    State(gate): State<Arc<Gate>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    same_site_or_proxy(&uri, &headers)?;
    let asked = Pass::parse(uri.query())?;
    // Before a limit is asked, which would take it for a mistake of this program's.
    gate.limiter.quota(&asked.limit).map_err(|error| Problem::from(&error))?;
    let (key, client) = match &asked.key {
        // Nobody is counted by address, so there is nothing to warn of.
        Some(key) => (Key::from(key.as_str()), gate.served.load().client_address.find(peer.ip(), &headers)),
        None => {
            let client = gate.client(peer.ip(), &headers);
            (client.key().standing_in(), client)
        }
    };
    pass(&gate, &asked.limit, key, asked.cost.get(), &client).await
}

/// 204 with the headers of the limit, or the denial.
pub(super) async fn pass(
    gate: &Gate,
    limit: &str,
    key: Key<'_>,
    cost: u64,
    client: &Client,
) -> Result<Response, Problem> {
    let caller = Caller::new(key.borrow()).with_address(client.address());
    let outcome = Enforcer::new(&gate.limiter, limit).ask(&caller, cost, Step::Take).await;
    let seen = match (&outcome, outcome.rulings()) {
        (Outcome::Unavailable(error) | Outcome::Invalid(error), _) => Err(error.clone()),
        (_, [ruling, ..]) => Ok(*ruling.decision()),
        (_, []) => Err(Error::NoKey),
    };
    gate.watch.saw(&Ask { op: Op::Limit, limit, key, cost, quota: None, whole_key: None }, &seen);
    let answers = &gate.served.load().answers;
    match &outcome {
        Outcome::Invalid(error) => Err(Problem::from(error)),
        Outcome::Allowed(_) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            answers.write_headers(&outcome, response.headers_mut());
            Ok(response)
        }
        _ => Ok(answers.answer(&outcome).map(Body::from)),
    }
}
