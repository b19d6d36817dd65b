//! The gRPC status of every outcome that is not an admission.

use std::convert::Infallible;

use http::{Method, Request, Response};
use tidegate::grpc::GrpcFormat;
use tidegate::http::{PeerAddr, RateLimit};
use tidegate::tower::RateLimitLayer;
use tidegate::{ManualClock, OnStoreError};
use tidegate_testkit::Faults;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tower::{Layer, ServiceExt};

use super::{Client, is_serving, serve};
use crate::support::{
    LOOPBACK, Server, TIMEOUT, builder, clock, faulty_limiter, left, limiter, removed_limit, unavailable_error, until,
    window,
};

/// Returns the status of a denied call, which has no retry delay.
async fn status(limits: impl Into<RateLimit>) -> Status {
    let status = Client::connect(&serve(limits).await).await.denied_status().await;
    assert!(status.get_details_retry_info().is_none());
    status
}

#[tokio::test]
async fn cost_above_the_capacity_is_not_retryable() {
    let limiter = limiter(window(2));
    let status = status(RateLimit::new(limiter.enforcer("api").unwrap()).cost(3)).await;
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(status.message(), "the call costs more than its whole quota");
    // A pushback of -1 stops automatic retries.
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "-1");
    assert_eq!(status.get_details_quota_failure().unwrap().violations[0].subject, "api");
    assert_eq!(left(&limiter, "api", LOOPBACK).await, 2);
}

#[tokio::test]
async fn cost_above_the_local_share_is_retryable() {
    let (limiter, faults, _clock) = faulty_limiter(OnStoreError::Local);
    faults.fail(unavailable_error());
    let status = status(RateLimit::new(limiter.enforcer("api").unwrap()).cost(4)).await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.metadata().get("grpc-retry-pushback-ms").is_none());
}

#[tokio::test]
async fn listed_client_is_permission_denied() {
    let limiter = builder(&clock()).limit("api", window(2)).deny("api", [LOOPBACK]).unwrap().build().unwrap();
    let status = status(limiter.enforcer("api").unwrap()).await;
    assert_eq!((status.code(), status.message()), (Code::PermissionDenied, "this client is not admitted"));
    assert!(status.metadata().get("grpc-retry-pushback-ms").is_none());
}

/// A balancer that probes `/healthz` must not take a denial for health.
#[tokio::test]
async fn plain_http_request_gets_an_http_status() {
    let layer = RateLimitLayer::new(limiter(window(1)).enforcer("api").unwrap()).with_format(GrpcFormat);
    let service = tower::service_fn(async |_| Ok::<_, Infallible>(Response::new(String::new())));
    let mut statuses = Vec::new();
    for method in [Method::GET, Method::GET, Method::POST] {
        let mut request = Request::builder().method(method).body(()).unwrap();
        request.extensions_mut().insert(PeerAddr(LOOPBACK.parse().unwrap()));
        statuses.push(layer.layer(service).oneshot(request).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 200]);
}

#[tokio::test]
async fn invalid_cost_is_an_invalid_argument() {
    let limiter = limiter(window(2));
    let status = status(RateLimit::new(limiter.enforcer("api").unwrap()).cost(0)).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(!status.message().is_empty());
}

#[tokio::test]
async fn removed_limit_is_internal_and_leaks_nothing() {
    let status = status(removed_limit("secret-name")).await;
    assert_eq!((status.code(), status.message()), (Code::Internal, "a limit could not be applied to this call"));
}

/// Serves the health service over a store that fails on command.
async fn serve_with_faults(policy: OnStoreError) -> (Server, Faults, ManualClock) {
    let (limiter, faults, clock) = faulty_limiter(policy);
    (serve(limiter.enforcer("api").unwrap()).await, faults, clock)
}

#[tokio::test]
async fn hanging_or_dead_store_is_unavailable_when_the_limit_is_closed() {
    let (server, faults, clock) = serve_with_faults(OnStoreError::Closed).await;
    let mut client = Client::connect(&server).await;
    faults.hang();
    let advance = async {
        until(|| faults.held_calls() == 1 && clock.sleepers() == 1).await;
        clock.advance(TIMEOUT);
    };
    let (hung, ()) = tokio::join!(client.denied_status(), advance);
    faults.fail(unavailable_error());
    for status in [hung, client.denied_status().await, client.watch().await.expect_err("a denial")] {
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.message(), "the limit of this call cannot be asked at the moment");
    }
    faults.pass();
    assert!(is_serving(client.check().await.unwrap().get_ref()));
}

#[tokio::test]
async fn open_admits_and_local_limits_on_a_hanging_or_dead_store() {
    for (policy, admitted) in [(OnStoreError::Open, 8), (OnStoreError::Local, 3)] {
        let (server, faults, clock) = serve_with_faults(policy).await;
        let mut client = Client::connect(&server).await;
        let mut codes = Vec::new();
        for call in 0..8 {
            let is_hung = call % 2 == 0;
            if is_hung {
                faults.hang()
            } else {
                faults.fail(unavailable_error())
            }
            let advance = async {
                if is_hung {
                    until(|| faults.held_calls() == 1 && clock.sleepers() == 1).await;
                    clock.advance(TIMEOUT);
                }
            };
            let (answer, ()) = tokio::join!(client.check(), advance);
            codes.push(answer.map_or_else(|status| status.code(), |_| Code::Ok));
        }
        assert!(codes[..admitted].iter().all(|&code| code == Code::Ok), "{policy:?}: {codes:?}");
        assert!(codes[admitted..].iter().all(|&code| code == Code::ResourceExhausted), "{policy:?}: {codes:?}");
    }
}
