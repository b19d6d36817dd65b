//! Requests that are not decided.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use tonic::Code;
use tonic::metadata::AsciiMetadataValue;

use super::{Asked, RULES, channel, on, overriding, request, told};
use crate::file;
use crate::program::Program;

#[tokio::test]
async fn what_says_nothing_is_refused_as_upstream_does() {
    let mut asked = Asked::start("empty").await;
    for (domain, descriptors, why) in [
        ("", vec![on("path", "/")], "rate limit domain must not be empty"),
        ("", vec![], "rate limit domain must not be empty"),
        ("shop", vec![], "rate limit descriptor list must not be empty"),
    ] {
        let refused = asked.ask(request(domain, &descriptors)).await.unwrap_err();
        assert_eq!((refused.code() as i32, refused.message()), (2, why));
    }
    let unknown = [on("path", "/a"), overriding(on("path", "/b"), 1, RateLimitUnit::Unknown)];
    let refused = asked.ask(request("shop", &unknown)).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unknown, "the unit of a limit override is not known"));
    // Nothing was taken.
    assert_eq!(asked.shop(&[on("path", "/a")]).await, "OK [OK 4 of 5]");
}

#[tokio::test]
async fn a_request_about_too_many_is_refused_at_once_and_takes_nothing() {
    let mut asked = Asked::start("many").await;
    let mut many: Vec<_> = (0..1_001).map(|number| on("path", &format!("/{number}"))).collect();
    let refused = asked.ask(request("shop", &many)).await.unwrap_err();
    let why = "rate limit descriptor list must not have more than 1000";
    assert_eq!((refused.code(), refused.message()), (Code::Unknown, why));
    many.truncate(1_000);
    assert_eq!(asked.shop(&many).await, format!("OK [{}]", ["OK 4 of 5"; 1_000].join(", ")));
}

#[tokio::test]
async fn a_descriptor_without_entries_meets_no_rule() {
    let mut asked = Asked::start("no-entries").await;
    assert_eq!(asked.shop(&[Default::default(), on("", "")]).await, "OK [OK 0, OK 0]");
}

#[tokio::test]
async fn a_message_above_a_mebibyte_is_refused_and_the_connection_goes_on() {
    let mut asked = Asked::start("large").await;
    let large = "x".repeat(1 << 20);
    let refused = asked.ask(request("shop", &[on("path", &large)])).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
    assert_eq!(asked.shop(&[on("path", "/login")]).await, "OK [OK 1 of 2]");
}

#[tokio::test]
async fn entries_that_are_longer_than_a_key_may_be_are_counted() {
    let mut asked = Asked::start("long").await;
    let [long, other] = ["x", "y"].map(|value| value.repeat(4_097));
    // Each by itself, and beside others: who sends them is not past their limits.
    assert_eq!(asked.shop(&[on("path", &long)]).await, "OK [OK 4 of 5]");
    assert_eq!(asked.shop(&[on("path", &other)]).await, "OK [OK 4 of 5]");
    assert_eq!(asked.shop(&[on("path", &long), on("path", "/login")]).await, "OK [OK 3 of 5, OK 1 of 2]");
    assert_eq!(asked.shop(&[on("nobody", &long), on("path", "/login")]).await, "OK [OK 0, OK 0 of 2]");
    let over = asked.shop(&[on("path", &long), on("path", "/login")]).await;
    assert!(over.starts_with("OVER_LIMIT"), "{over}");
}

#[tokio::test]
async fn a_token_has_to_be_shown() {
    let config = file("grpc-token.yaml", RULES);
    let program = Program::start_with(&["--config", &config], &[("TIDEGATE_TOKEN", "correct-horse-battery")]);
    let mut client = RateLimitServiceClient::new(channel(&program).await);
    for (shown, expected) in [
        (None, Err(Code::Unauthenticated)),
        (Some("Bearer correct-horse"), Err(Code::Unauthenticated)),
        (Some("correct-horse-battery-staple"), Err(Code::Unauthenticated)),
        (Some("Bearer correct-horse-battery"), Ok("OK [OK 1 of 2]".to_owned())),
    ] {
        let mut asking = tonic::Request::new(request("shop", &[on("path", "/login")]));
        if let Some(shown) = shown {
            asking.metadata_mut().insert("authorization", AsciiMetadataValue::from_static(shown));
        }
        let answer = client.should_rate_limit(asking).await;
        let answer = answer.map(|answer| told(answer.get_ref())).map_err(|refused| refused.code());
        assert_eq!(answer, expected, "{shown:?}");
    }
    // Who probes whether it serves has no token to show.
    super::health::check(&program, "").await.expect("an answer");
    assert_eq!(super::reflection::list(&program).await.unwrap_err().code(), Code::Unauthenticated);
}
