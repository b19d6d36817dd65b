//! An HTTP server behind the layer, on a Redis that stops answering and is killed.

use std::net::SocketAddr;

use axum::Router;
use reqwest::Client;
use tidegate::Limiter;
use tidegate::http::RateLimit;
use tidegate::tower::RateLimitLayer;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::server;
use crate::load::assert_in_time;
use crate::support::{CAPACITY, SHARE, keys, run, spawn};

/// A server whose paths are the names of the limits, on loopback.
fn serve(limiter: &Limiter) -> SocketAddr {
    let limiter = limiter.clone();
    let limits = RateLimit::pick(move |incoming| limiter.enforcer(&incoming.uri().path()[1..]).unwrap());
    let router = Router::new().fallback(|| async { "ok" }).layer(RateLimitLayer::new(limits));
    let listener = run(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    spawn(async move { axum::serve(listener, service).await.unwrap() });
    address
}

/// The status of a request, and what it is told of its quota.
fn ask(address: SocketAddr, limit: &str) -> (u16, Option<String>) {
    let client = Client::builder().no_proxy().build().unwrap();
    run(async {
        let response = client.get(format!("http://{address}/{limit}")).send().await.unwrap();
        let told = response.headers().get("ratelimit-policy").map(|policy| policy.to_str().unwrap().to_owned());
        (response.status().as_u16(), told)
    })
}

/// The same of a server that waits no longer than it may.
fn get(address: SocketAddr, limit: &str) -> (u16, Option<String>) {
    let began = Instant::now();
    let answer = ask(address, limit);
    assert_in_time(began, Instant::now());
    answer
}

#[test]
fn a_server_that_answers_while_its_redis_does_not() {
    let mut redis = server::start();
    let service = server::service(&redis);
    // The first call brings the script along, and has no more time than the others.
    service.resumes(&keys(1));
    let address = serve(&service.limiter);
    // What the store itself says, however busy the machine is.
    let patient = serve(&server::patient(&redis).limiter);
    let by_store = |limit: &str| Some(format!(r#""{limit}";q={CAPACITY};w={}"#, CAPACITY * 300 * 86_400));
    for limit in ["open", "closed", "local"] {
        assert_eq!(ask(patient, limit), (200, by_store(limit)));
    }

    redis.stop_answering();
    assert_eq!((get(address, "open"), get(address, "closed")), ((200, None), (503, None)));
    let share = (0..2 * SHARE).map(|_| get(address, "local").0).collect::<Vec<_>>();
    assert_eq!(share, [[200; SHARE as usize], [429; SHARE as usize]].concat());

    redis.go_on();
    service.resumes(&keys(1));
    for limit in ["open", "closed", "local"] {
        assert_eq!(ask(patient, limit), (200, by_store(limit)));
    }

    redis.kill();
    assert_eq!((get(address, "open"), get(address, "closed")), ((200, None), (503, None)));
    assert_eq!(get(address, "local").0, 429);
}
