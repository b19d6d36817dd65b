//! Logged warnings: an untrusted proxy and missing peer addresses, once each.

use std::convert::Infallible;

use axum::body::Body;
use http::{Request, Response};
use tidegate::http::{ClientAddress, RateLimit, TrustProxy};
use tidegate::tower::RateLimitLayer;
use tower::{Layer, ServiceExt, service_fn};

use crate::clients;
use crate::support::{Server, limiter, window};
use crate::warnings::warnings;

#[tokio::test]
async fn layer_warns_once_of_an_untrusted_proxy() {
    let rate_limit = RateLimit::new(limiter(window(9)).enforcer("api").unwrap());
    let server = Server::behind(rate_limit.clone()).await;
    assert_eq!(warnings(), [""; 0]);
    clients::get(server.address).await;
    assert_eq!(warnings(), [""; 0], "no forwarding header yet");
    for _ in 0..3 {
        clients::get_with(server.address, &["x-forwarded-for: 192.0.2.1"]).await;
    }
    // Another server with the same policy does not warn again.
    clients::get_with(Server::behind(rate_limit).await.address, &["forwarded: for=192.0.2.1"]).await;
    let told = warnings();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("a request from 127.0.0.1 came with x-forwarded-for"), "{told:?}");
}

#[tokio::test]
async fn trusted_proxy_does_not_warn() {
    assert_eq!(warnings(), [""; 0]);
    let trusting = ClientAddress::new().trust(TrustProxy::networks(["127.0.0.0/8"]).unwrap());
    let server =
        Server::behind(RateLimit::new(limiter(window(9)).enforcer("api").unwrap()).client_address(trusting)).await;
    clients::get_with(server.address, &["x-forwarded-for: 192.0.2.1"]).await;
    assert_eq!(warnings(), [""; 0]);
}

#[tokio::test]
async fn missing_peer_addresses_are_logged_once_with_advice() {
    assert_eq!(warnings(), [""; 0]);
    let layer = RateLimitLayer::new(limiter(window(9)).enforcer("api").unwrap());
    let service = layer.layer(service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty()))));
    for _ in 0..3 {
        let response = service.clone().oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), 500);
    }
    let logged = warnings();
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(logged[0].contains("the limit api"), "{logged:?}");
    assert!(logged[0].contains("into_make_service_with_connect_info::<SocketAddr>()"), "{logged:?}");
}
