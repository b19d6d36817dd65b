//! The hits of a request: the units that it takes, checks or refunds.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;

use super::{GrpcServer, descriptor, request, response_summary, with_hits};

fn with_negative_hits(descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..descriptor }
}

#[tokio::test]
async fn hits_of_a_descriptor_take_precedence_over_the_request() {
    let mut server = GrpcServer::start("hits").await;
    let of_the_request =
        |descriptors: &[_], hits_addend| RateLimitRequest { hits_addend, ..request("shop", descriptors) };
    let three = server.send(of_the_request(&[descriptor("path", "/a")], 3)).await.unwrap();
    assert_eq!(response_summary(&three), "OK [OK 2 of 5]");
    // Hits that would exceed the limit take nothing.
    let three = server.send(of_the_request(&[descriptor("path", "/a")], 3)).await.unwrap();
    assert_eq!(response_summary(&three), "OVER_LIMIT [OVER_LIMIT 2 of 5]");
    let two = server
        .send(of_the_request(&[with_hits(descriptor("path", "/a"), 2), descriptor("path", "/b")], 3))
        .await
        .unwrap();
    assert_eq!(response_summary(&two), "OK [OK 0 of 5, OK 2 of 5]");
    // Unset hits count as one, and so does 0 for the whole request.
    let one = server.send(of_the_request(&[descriptor("path", "/b")], 0)).await.unwrap();
    assert_eq!(response_summary(&one), "OK [OK 1 of 5]");
}

#[tokio::test]
async fn hits_above_the_limit_are_over_limit_and_take_nothing() {
    let mut server = GrpcServer::start("too-much").await;
    for too_much in [6, u64::MAX] {
        assert_eq!(
            server.limit_shop(&[with_hits(descriptor("path", "/a"), too_much)]).await,
            "OVER_LIMIT [OVER_LIMIT 5 of 5]"
        );
    }
    assert_eq!(server.limit_shop(&[with_hits(descriptor("path", "/a"), 5)]).await, "OK [OK 0 of 5]");
}

#[tokio::test]
async fn an_explicit_0_checks_and_takes_nothing() {
    let mut server = GrpcServer::start("look").await;
    let look = || [with_hits(descriptor("path", "/login"), 0)];
    assert_eq!(server.limit_shop(&look()).await, "OK [OK 2 of 2]");
    assert_eq!(server.limit_shop(&look()).await, "OK [OK 2 of 2]");
    assert_eq!(
        server.limit_shop(&[descriptor("path", "/login"), with_hits(descriptor("path", "/a"), 0)]).await,
        "OK [OK 1 of 2, OK 5 of 5]"
    );
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OK [OK 0 of 2]");
    assert_eq!(server.limit_shop(&look()).await, "OVER_LIMIT [OVER_LIMIT 0 of 2]");
    // One descriptor that is over denies the others.
    let both = [with_hits(descriptor("path", "/login"), 0), descriptor("path", "/a")];
    assert_eq!(server.limit_shop(&both).await, "OVER_LIMIT [OVER_LIMIT 0 of 2, OK 5 of 5]");
    assert_eq!(server.limit_shop(&[descriptor("path", "/a")]).await, "OK [OK 4 of 5]");
}

#[tokio::test]
async fn negative_hits_refund() {
    let mut server = GrpcServer::start("refund").await;
    assert_eq!(server.limit_shop(&[with_hits(descriptor("path", "/a"), 5)]).await, "OK [OK 0 of 5]");
    assert_eq!(
        server.limit_shop(&[with_negative_hits(with_hits(descriptor("path", "/a"), 2))]).await,
        "OK [OK 2 of 5]"
    );
    // The refund does not exceed the units that were taken.
    assert_eq!(
        server.limit_shop(&[with_negative_hits(with_hits(descriptor("path", "/a"), 9))]).await,
        "OK [OK 5 of 5]"
    );
    // A descriptor can also make the request's hits negative.
    let request = RateLimitRequest {
        hits_addend: 3,
        ..request("shop", &[descriptor("path", "/b"), with_negative_hits(descriptor("path", "/a"))])
    };
    assert_eq!(response_summary(&server.send(request).await.unwrap()), "OK [OK 2 of 5, OK 5 of 5]");
}

#[tokio::test]
async fn a_denied_request_refunds_nothing() {
    let mut server = GrpcServer::start("no-refund").await;
    assert_eq!(server.limit_shop(&[with_hits(descriptor("path", "/a"), 5)]).await, "OK [OK 0 of 5]");
    let both = [with_hits(descriptor("path", "/login"), 3), with_negative_hits(with_hits(descriptor("path", "/a"), 2))];
    assert!(server.limit_shop(&both).await.starts_with("OVER_LIMIT [OVER_LIMIT 2 of 2, OK"));
    assert_eq!(server.limit_shop(&[with_hits(descriptor("path", "/a"), 0)]).await, "OVER_LIMIT [OVER_LIMIT 0 of 5]");
}
