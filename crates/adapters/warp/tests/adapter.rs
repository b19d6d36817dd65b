//! The adapter suite in warp, and rejections of other filters.

use std::net::SocketAddr;

use tidegate::http::{AdmittedRequest, Gate, RateLimit};
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{self, Adapter, AddressSender, App, gate, limiter};
use tidegate_warp::{admit, finish, recover, wrap};
use warp::http::StatusCode;
use warp::reply::Response;
use warp::{Filter, Rejection, Reply, reply};

struct Warp;

impl Adapter for Warp {
    const ROUTES: bool = false;
    const HTTP2: bool = true;

    fn serve(app: App, sender: AddressSender) {
        let gate = app.gate();
        let with = |path: &'static str| {
            let app = app.clone();
            warp::path(path).and(warp::path::end()).map(move || app.clone())
        };
        let behind = app.clone();
        let root = warp::path::end().and(wrap(&gate, warp::get().map(move || behind.page())));
        let fails = with("fails").and(admit(&gate)).then(async |app: App, admitted: AdmittedRequest| {
            let failure = reply::with_status(app.failure(), StatusCode::UNAUTHORIZED);
            finish(admitted, reply::with_header(failure, "x-app", "mine")).await
        });
        let outcome = with("outcome").and(admit(&gate)).then(async |app: App, admitted: AdmittedRequest| {
            let page = app.outcome(admitted.outcome());
            finish(admitted, page).await
        });
        let stream = with("stream")
            .and(admit(&gate))
            .then(async |app: App, admitted: AdmittedRequest| finish(admitted, reply::stream(app.stream())).await);
        let routes = root.or(fails).unify().or(outcome).unify().or(stream).unify().recover(recover);
        sender.serve_on_tokio(async |listener| warp::serve(routes).incoming(listener).run().await);
    }
}

adapter_tests!(suite, Warp);

/// Returns the status, the header `ratelimit` and the body.
fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    let reply = adapters::get(address, path, &[]);
    (reply.status, reply.header("ratelimit").unwrap_or_default(), reply.body)
}

/// Serves these routes, and returns the address.
fn serve(routes: impl Filter<Extract = (Response,), Error = Rejection> + Clone + Send + Sync + 'static) -> SocketAddr {
    AddressSender::start_server(move |sender| {
        sender.serve_on_tokio(async |listener| warp::serve(routes.recover(recover)).incoming(listener).run().await);
    })
}

#[derive(Debug)]
struct LoginError;

impl warp::reject::Reject for LoginError {}

async fn login() -> Result<Response, Rejection> {
    Err(warp::reject::custom(LoginError))
}

async fn unauthorized(_: Rejection) -> Result<Response, Rejection> {
    Ok(reply::with_status("", StatusCode::UNAUTHORIZED).into_response())
}

#[test]
fn rejection_recovered_within_the_gate_is_charged() {
    let limits = RateLimit::new(limiter("api", 2).enforcer("api").unwrap())
        .charge_when(|status, _| status == StatusCode::UNAUTHORIZED);
    let login = wrap(&Gate::new(limits), warp::any().and_then(login).recover(unauthorized).unify());
    let address = serve(login);
    for status in [401, 401, 429] {
        assert_eq!(get(address, "/").0, status);
    }
}

#[test]
fn other_rejections_are_unchanged_and_parameters_reach_the_handler() {
    let gate = gate("api", 1);
    let user = warp::path!("users" / u64)
        .and(admit(&gate))
        .then(async |id: u64, admitted: AdmittedRequest| finish(admitted, format!("user {id}")).await);
    let address = serve(user);
    // A request that no route takes is not counted.
    for _ in 0..2 {
        assert_eq!(get(address, "/unknown").0, 404);
    }
    assert_eq!(get(address, "/users/7"), (200, r#""api";r=0;t=60"#.to_owned(), "user 7".to_owned()));
    assert_eq!(get(address, "/users/7").0, 429);
}
