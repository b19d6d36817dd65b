//! How much a request takes.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;

use super::{Asked, hits, on, request, told};

fn negative(descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..descriptor }
}

#[tokio::test]
async fn hits_of_a_descriptor_take_precedence_over_the_request() {
    let mut asked = Asked::start("hits").await;
    let of_the_request =
        |descriptors: &[_], hits_addend| RateLimitRequest { hits_addend, ..request("shop", descriptors) };
    let three = asked.ask(of_the_request(&[on("path", "/a")], 3)).await.unwrap();
    assert_eq!(told(&three), "OK [OK 2 of 5]");
    // Hits that would exceed the limit take nothing.
    let three = asked.ask(of_the_request(&[on("path", "/a")], 3)).await.unwrap();
    assert_eq!(told(&three), "OVER_LIMIT [OVER_LIMIT 2 of 5]");
    let two = asked.ask(of_the_request(&[hits(on("path", "/a"), 2), on("path", "/b")], 3)).await.unwrap();
    assert_eq!(told(&two), "OK [OK 0 of 5, OK 2 of 5]");
    // Unset is one, and so is 0 for the whole request.
    let one = asked.ask(of_the_request(&[on("path", "/b")], 0)).await.unwrap();
    assert_eq!(told(&one), "OK [OK 1 of 5]");
}

#[tokio::test]
async fn hits_above_the_limit_are_over_and_take_nothing() {
    let mut asked = Asked::start("too-much").await;
    for too_much in [6, u64::MAX] {
        assert_eq!(asked.shop(&[hits(on("path", "/a"), too_much)]).await, "OVER_LIMIT [OVER_LIMIT 5 of 5]");
    }
    assert_eq!(asked.shop(&[hits(on("path", "/a"), 5)]).await, "OK [OK 0 of 5]");
}

#[tokio::test]
async fn an_explicit_0_checks_and_takes_nothing() {
    let mut asked = Asked::start("look").await;
    let look = || [hits(on("path", "/login"), 0)];
    assert_eq!(asked.shop(&look()).await, "OK [OK 2 of 2]");
    assert_eq!(asked.shop(&look()).await, "OK [OK 2 of 2]");
    assert_eq!(asked.shop(&[on("path", "/login"), hits(on("path", "/a"), 0)]).await, "OK [OK 1 of 2, OK 5 of 5]");
    assert_eq!(asked.shop(&[on("path", "/login")]).await, "OK [OK 0 of 2]");
    assert_eq!(asked.shop(&look()).await, "OVER_LIMIT [OVER_LIMIT 0 of 2]");
    // One descriptor that is over denies the others.
    let both = [hits(on("path", "/login"), 0), on("path", "/a")];
    assert_eq!(asked.shop(&both).await, "OVER_LIMIT [OVER_LIMIT 0 of 2, OK 5 of 5]");
    assert_eq!(asked.shop(&[on("path", "/a")]).await, "OK [OK 4 of 5]");
}

#[tokio::test]
async fn negative_hits_refund() {
    let mut asked = Asked::start("refund").await;
    assert_eq!(asked.shop(&[hits(on("path", "/a"), 5)]).await, "OK [OK 0 of 5]");
    assert_eq!(asked.shop(&[negative(hits(on("path", "/a"), 2))]).await, "OK [OK 2 of 5]");
    // No more than there ever was.
    assert_eq!(asked.shop(&[negative(hits(on("path", "/a"), 9))]).await, "OK [OK 5 of 5]");
    // The request's hits can be negative by a descriptor, too.
    let request =
        RateLimitRequest { hits_addend: 3, ..request("shop", &[on("path", "/b"), negative(on("path", "/a"))]) };
    assert_eq!(told(&asked.ask(request).await.unwrap()), "OK [OK 2 of 5, OK 5 of 5]");
}

#[tokio::test]
async fn a_denied_request_refunds_nothing() {
    let mut asked = Asked::start("no-refund").await;
    assert_eq!(asked.shop(&[hits(on("path", "/a"), 5)]).await, "OK [OK 0 of 5]");
    let both = [hits(on("path", "/login"), 3), negative(hits(on("path", "/a"), 2))];
    assert!(asked.shop(&both).await.starts_with("OVER_LIMIT [OVER_LIMIT 2 of 2, OK"));
    assert_eq!(asked.shop(&[hits(on("path", "/a"), 0)]).await, "OVER_LIMIT [OVER_LIMIT 0 of 5]");
}
