//! Calls that are admitted and calls that are limited, unary and streaming.

use std::time::Duration;

use tidegate::concurrency::Concurrency;
use tidegate::grpc::GrpcFormat;
use tidegate::http::{HeaderMap, RateLimit, keys};
use tidegate::tower::{AdmissionLayer, RateLimitLayer};
use tidegate::{Key, Limiter, Quota, days, millis};
use tonic::codegen::http::StatusCode;
use tonic::transport::Server as TonicServer;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_types::StatusExt;
use tower_layer::Layer;

use super::{CHECK, Client, WATCH, is_serving, serve};
use crate::clients;
use crate::support::{LOOPBACK, Server, bucket, builder, clock, left, limiter, memory, waiting_limiter, window};
use crate::waiting_store::WaitingStore;

/// Returns the retry fields of a status: the delay, the milliseconds and the violations.
fn retry_details(status: &Status) -> (Option<Duration>, &str, Vec<(String, String)>) {
    let details = status.get_error_details();
    let delay = details.retry_info().and_then(|info| info.retry_delay);
    let pushback = status.metadata().get("grpc-retry-pushback-ms").expect("a pushback").to_str().unwrap();
    let violations = details.quota_failure().expect("a quota failure").violations.iter();
    (delay, pushback, violations.map(|one| (one.subject.clone(), one.description.clone())).collect())
}

fn violation(subject: &str, description: &str) -> (String, String) {
    (subject.to_owned(), description.to_owned())
}

#[tokio::test]
async fn unary_calls_are_admitted_and_then_exhausted() {
    for wait in [false, true] {
        let clock = clock();
        let limiter = match wait {
            false => builder(&clock).limit("api", bucket(2)).build().unwrap(),
            true => {
                Limiter::builder().limit("api", bucket(2)).store(WaitingStore::new(memory(&clock))).build().unwrap()
            }
        };
        let server = serve(limiter.enforcer("api").unwrap()).await;
        let mut client = Client::connect(&server).await;
        for _ in 0..2 {
            assert!(is_serving(client.check().await.unwrap().get_ref()));
        }
        clock.advance(millis(1_500));
        let status = client.denied_status().await;
        assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "quota exceeded"));
        let expected = (Some(millis(28_500)), "28500", vec![violation("api", "at most 2 at once")]);
        assert_eq!(retry_details(&status), expected);
    }
}

#[tokio::test]
async fn call_is_admitted_after_its_retry_delay() {
    let clock = clock();
    let limiter = builder(&clock).limit("api", bucket(2)).build().unwrap();
    let server = serve(RateLimit::new(limiter.enforcer("api").unwrap()).cost(2)).await;
    let mut client = Client::connect(&server).await;
    client.check().await.unwrap();
    clock.advance(Duration::from_micros(1));
    // The delay is exact, and the milliseconds are rounded up.
    let status = client.denied_status().await;
    let delay = Duration::from_micros(59_999_999);
    assert_eq!((retry_details(&status).0, retry_details(&status).1), (Some(delay), "60000"));
    clock.advance(delay - Duration::from_micros(1));
    let status = client.denied_status().await;
    assert_eq!((retry_details(&status).0, retry_details(&status).1), (Some(Duration::from_micros(1)), "1"));
    clock.advance(Duration::from_micros(1));
    client.check().await.unwrap();
}

#[tokio::test]
async fn streaming_calls_are_admitted_and_then_exhausted() {
    for limiter in [limiter(window(1)), waiting_limiter(window(1))] {
        let server = serve(limiter.enforcer("api").unwrap()).await;
        let mut client = Client::connect(&server).await;
        let mut stream = client.watch().await.unwrap().into_inner();
        assert!(is_serving(&stream.message().await.unwrap().unwrap()));
        let status = client.watch().await.expect_err("a denial");
        assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "quota exceeded"));
        let expected = (Some(millis(60_000)), "60000", vec![violation("api", "at most 1 at once")]);
        assert_eq!(retry_details(&status), expected);
    }
}

#[tokio::test]
async fn every_method_can_have_its_own_budget() {
    let limiter = limiter(window(1));
    let per_method = RateLimit::new(limiter.enforcer("api").unwrap()).key(keys::both(keys::client(), keys::path()));
    let server = serve(per_method).await;
    let mut client = Client::connect(&server).await;
    client.check().await.unwrap();
    assert_eq!(client.check().await.unwrap_err().code(), Code::ResourceExhausted);
    client.watch().await.unwrap();
    assert_eq!(client.watch().await.unwrap_err().code(), Code::ResourceExhausted);
    for method in [CHECK, WATCH] {
        assert_eq!(left(&limiter, "api", (LOOPBACK, method)).await, 0);
    }
}

/// Calls of other services are not counted, unknown services included.
#[tokio::test]
async fn layer_of_one_service_ignores_other_services() {
    let limiter = limiter(window(2));
    let limits = RateLimit::new(limiter.enforcer("api").unwrap());
    let layer = RateLimitLayer::new(limits.clone()).with_format(GrpcFormat);
    let guarded = AdmissionLayer::new(Concurrency::fixed(9)).limits(limits).with_format(GrpcFormat);
    let health = || tonic_health::server::health_reporter().1;
    for router in [
        TonicServer::builder().add_service(layer.layer(health())),
        TonicServer::builder().add_service(guarded.layer(health())),
    ] {
        let server = Server::start(|listener| async move {
            router.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap();
        })
        .await;
        let _ = limiter.reset("api", LOOPBACK).await.unwrap();
        let made_up = clients::http2().post(server.url("/made.up.Service/Check")).send().await.unwrap();
        assert_eq!(made_up.headers()["grpc-status"], "12");
        let mut client = Client::connect(&server).await;
        for code in [Code::Ok, Code::Ok, Code::ResourceExhausted] {
            assert_eq!(client.check().await.map_or_else(|status| status.code(), |_| Code::Ok), code);
        }
    }
}

#[tokio::test]
async fn client_is_the_peer_despite_its_metadata() {
    let limiter = limiter(window(9));
    let server = serve(limiter.enforcer("api").unwrap()).await;
    let mut client = Client::connect(&server).await;
    let mut request = tonic::Request::new(Default::default());
    request.metadata_mut().insert("x-forwarded-for", "192.0.2.1".parse().unwrap());
    client.0.check(request).await.unwrap();
    assert_eq!((left(&limiter, "api", LOOPBACK).await, left(&limiter, "api", "192.0.2.1").await), (8, 9));
}

/// A method that returns a status says so in the head of its response.
#[tokio::test]
async fn only_failed_calls_can_be_charged() {
    let failed = |status: StatusCode, headers: &HeaderMap| {
        assert_eq!(status, 200, "whatever became of the call");
        headers.contains_key("grpc-status")
    };
    for limiter in [limiter(window(1)), waiting_limiter(window(1))] {
        let server = serve(RateLimit::new(limiter.enforcer("api").unwrap()).charge_when(failed)).await;
        let mut client = Client::connect(&server).await;
        for _ in 0..3 {
            client.check().await.unwrap();
            client.watch().await.unwrap();
        }
        let unknown = HealthCheckRequest { service: "unknown".into() };
        assert_eq!(client.0.check(unknown).await.unwrap_err().code(), Code::NotFound);
        assert_eq!(client.denied_status().await.code(), Code::ResourceExhausted);
    }
}

#[tokio::test]
async fn metadata_can_be_a_key() {
    let limiter = limiter(window(1));
    let user = keys::header(tidegate::http::HeaderName::from_static("user"));
    let server = serve(RateLimit::new(limiter.enforcer("api").unwrap()).key(user)).await;
    let mut client = Client::connect(&server).await;
    for (user, admitted) in [("alice", true), ("bob", true), ("alice", false)] {
        let mut request = tonic::Request::new(Default::default());
        request.metadata_mut().insert("user", user.parse().unwrap());
        assert_eq!(client.0.check(request).await.is_ok(), admitted, "{user}");
    }
    assert_eq!(left(&limiter, "api", Key::from("bob")).await, 0);
}

#[tokio::test]
async fn several_limits_are_all_or_nothing_and_every_violation_is_named() {
    let daily = Quota::fixed_window(2, days(1)).unwrap();
    let limiter =
        builder(&clock()).limit("burst", window(2)).limit("daily", daily).limit("big", window(9)).build().unwrap();
    let server =
        serve(limiter.enforcer("burst").unwrap().and("big").unwrap().and("daily").unwrap().with_policy_name("per day"))
            .await;
    let mut client = Client::connect(&server).await;
    for _ in 0..2 {
        client.check().await.unwrap();
    }
    let status = client.denied_status().await;
    let violations = vec![violation("burst", "at most 2 at once"), violation("per day", "at most 2 at once")];
    assert_eq!(retry_details(&status), (Some(millis(57_600_000)), "57600000", violations));
    assert_eq!(left(&limiter, "big", LOOPBACK).await, 7);
}

#[tokio::test]
async fn any_policy_name_reaches_the_client_unchanged() {
    for name in ["quo\"te", "line\r\nbreak", "tide 🌊", "100%", ""] {
        let limiter = limiter(window(1));
        let server = serve(limiter.enforcer("api").unwrap().with_policy_name(name)).await;
        let mut client = Client::connect(&server).await;
        client.check().await.unwrap();
        assert_eq!(retry_details(&client.denied_status().await).2, [violation(name, "at most 1 at once")]);
    }
}

#[tokio::test]
async fn admitted_call_has_no_limit_metadata() {
    let limiter = limiter(window(1));
    let server = serve(limiter.enforcer("api").unwrap()).await;
    let response = Client::connect(&server).await.check().await.unwrap();
    assert!(response.metadata().keys().all(|key| !format!("{key:?}").contains("ratelimit")));
}
