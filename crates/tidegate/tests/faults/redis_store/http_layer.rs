//! An HTTP server behind the layer, on a Redis server that is paused and then killed.

use std::net::SocketAddr;

use axum::Router;
use reqwest::Client;
use tidegate::Limiter;
use tidegate::http::RateLimit;
use tidegate::tower::RateLimitLayer;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::server;
use crate::load::assert_no_hang;
use crate::support::{CAPACITY, LOCAL_SHARE, keys, run, spawn};

/// A server whose paths are the names of the limits, on loopback.
fn serve(limiter: &Limiter) -> SocketAddr {
    let limiter = limiter.clone();
    let limits = RateLimit::pick(move |head| limiter.enforcer(&head.uri().path()[1..]).unwrap());
    let router = Router::new().fallback(|| async { "ok" }).layer(RateLimitLayer::new(limits));
    let listener = run(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    spawn(async move { axum::serve(listener, service).await.unwrap() });
    address
}

/// Sends a request, and returns the status and the quota in the response.
fn send_request(address: SocketAddr, limit: &str) -> (u16, Option<String>) {
    let client = Client::builder().no_proxy().build().unwrap();
    run(async {
        let response = client.get(format!("http://{address}/{limit}")).send().await.unwrap();
        let policy = response.headers().get("ratelimit-policy").map(|policy| policy.to_str().unwrap().to_owned());
        (response.status().as_u16(), policy)
    })
}

/// Sends a request to a server that must answer within the timeout.
fn send_timed_request(address: SocketAddr, limit: &str) -> (u16, Option<String>) {
    let began = Instant::now();
    let answer = send_request(address, limit);
    assert_no_hang(began, Instant::now());
    answer
}

#[test]
fn http_server_answers_while_redis_does_not() {
    let mut redis = server::start();
    let service = server::service(&redis);
    // The first call also loads the script, within the same timeout.
    service.wait_for_recovery(&keys(1));
    let address = serve(&service.limiter);
    // Responses of the store itself, however busy the machine is.
    let patient = serve(&server::patient_service(&redis).limiter);
    let by_store = |limit: &str| Some(format!(r#""{limit}";q={CAPACITY};w={}"#, CAPACITY * 300 * 86_400));
    for limit in ["open", "closed", "local"] {
        assert_eq!(send_request(patient, limit), (200, by_store(limit)));
    }

    redis.pause();
    assert_eq!(
        (send_timed_request(address, "open"), send_timed_request(address, "closed")),
        ((200, None), (503, None))
    );
    let share = (0..2 * LOCAL_SHARE).map(|_| send_timed_request(address, "local").0).collect::<Vec<_>>();
    assert_eq!(share, [[200; LOCAL_SHARE as usize], [429; LOCAL_SHARE as usize]].concat());

    redis.resume();
    service.wait_for_recovery(&keys(1));
    for limit in ["open", "closed", "local"] {
        assert_eq!(send_request(patient, limit), (200, by_store(limit)));
    }

    redis.kill();
    assert_eq!(
        (send_timed_request(address, "open"), send_timed_request(address, "closed")),
        ((200, None), (503, None))
    );
    assert_eq!(send_timed_request(address, "local").0, 429);
}
