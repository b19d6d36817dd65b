//! warp.

use std::net::SocketAddr;

use tidegate::http::{Gate, RateLimit};
use tidegate::warp::{Passed, gated, limited, recover};
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{Adapter, App, Listening};
use warp::http::StatusCode;
use warp::reply::Response;
use warp::{Filter, Rejection, Reply, reply};

use super::on_tokio;
use super::setting::{gate, get, limiter, start};

struct Warp;

impl Adapter for Warp {
    const ROUTES: bool = false;

    fn serve(app: App, listening: Listening) {
        let gate = app.gate();
        let with = |path: &'static str| {
            let app = app.clone();
            warp::path(path).and(warp::path::end()).map(move || app.clone())
        };
        let behind = app.clone();
        let root = warp::path::end().and(gated(&gate, warp::get().map(move || behind.page())));
        let fails = with("fails").and(limited(&gate)).then(async |app: App, passed: Passed| {
            passed
                .reply(reply::with_header(reply::with_status(app.failure(), StatusCode::UNAUTHORIZED), "x-app", "mine"))
                .await
        });
        let told = with("told").and(limited(&gate)).then(async |app: App, passed: Passed| {
            let told = app.told(passed.told());
            passed.reply(told).await
        });
        let stream = with("stream")
            .and(limited(&gate))
            .then(async |app: App, passed: Passed| passed.reply(reply::stream(app.stream())).await);
        let routes = root.or(fails).unify().or(told).unify().or(stream).unify().recover(recover);
        on_tokio(listening, async |listener| warp::serve(routes).incoming(listener).run().await);
    }
}

adapter_tests!(suite, Warp);

/// Serves that, and says where.
fn serve(routes: impl Filter<Extract = (Response,), Error = Rejection> + Clone + Send + Sync + 'static) -> SocketAddr {
    start(move |told| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            warp::serve(routes.recover(recover)).incoming(listener).run().await;
        });
    })
}

#[derive(Debug)]
struct Wrong;

impl warp::reject::Reject for Wrong {}

async fn login() -> Result<Response, Rejection> {
    Err(warp::reject::custom(Wrong))
}

async fn unauthorized(_: Rejection) -> Result<Response, Rejection> {
    Ok(reply::with_status("", StatusCode::UNAUTHORIZED).into_response())
}

#[tokio::test]
async fn a_rejection_from_which_it_recovers_within_the_gate_is_charged_for() {
    let limits =
        RateLimit::new((&limiter("api", 2), "api")).charge_when(|status, _| status == StatusCode::UNAUTHORIZED);
    let login = gated(&Gate::new(limits), warp::any().and_then(login).recover(unauthorized).unify());
    let address = serve(login);
    for status in [401, 401, 429] {
        assert_eq!(get(address, "/").await.0, status);
    }
}

#[tokio::test]
async fn other_rejections_stay_what_they_are_and_parameters_reach_the_handler() {
    let gate = gate("api", 1);
    let user = warp::path!("users" / u64)
        .and(limited(&gate))
        .then(async |id: u64, passed: Passed| passed.reply(format!("user {id}")).await);
    let address = serve(user);
    // What no route takes is not counted.
    for _ in 0..2 {
        assert_eq!(get(address, "/nobody").await.0, 404);
    }
    assert_eq!(get(address, "/users/7").await, (200, r#""api";r=0;t=60"#.to_owned(), "user 7".to_owned()));
    assert_eq!(get(address, "/users/7").await.0, 429);
}
