//! Requests that are refused without a decision.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use prost::Message;
use reqwest::Client;
use tonic::Code;
use tonic::metadata::AsciiMetadataValue;

use super::{GrpcServer, RULES, channel, descriptor, request, response_summary, with_override};
use crate::serve::program::Program;
use crate::serve::write_file;

#[tokio::test]
async fn empty_requests_are_refused_as_by_upstream() {
    let mut server = GrpcServer::start("empty").await;
    for (domain, descriptors, why) in [
        ("", vec![descriptor("path", "/")], "rate limit domain must not be empty"),
        ("", vec![], "rate limit domain must not be empty"),
        ("shop", vec![], "rate limit descriptor list must not be empty"),
    ] {
        let refused = server.send(request(domain, &descriptors)).await.unwrap_err();
        assert_eq!((refused.code() as i32, refused.message()), (2, why));
    }
    let unknown = [descriptor("path", "/a"), with_override(descriptor("path", "/b"), 1, RateLimitUnit::Unknown)];
    let refused = server.send(request("shop", &unknown)).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unknown, "the unit of a limit override is not known"));
    // Nothing was taken.
    assert_eq!(server.limit_shop(&[descriptor("path", "/a")]).await, "OK [OK 4 of 5]");
}

#[tokio::test]
async fn too_many_descriptors_are_refused_and_take_nothing() {
    let mut server = GrpcServer::start("many").await;
    let mut many: Vec<_> = (0..1_001).map(|number| descriptor("path", &format!("/{number}"))).collect();
    let refused = server.send(request("shop", &many)).await.unwrap_err();
    let why = "rate limit descriptor list must not have more than 1000";
    assert_eq!((refused.code(), refused.message()), (Code::Unknown, why));
    many.truncate(1_000);
    assert_eq!(server.limit_shop(&many).await, format!("OK [{}]", ["OK 4 of 5"; 1_000].join(", ")));
}

#[tokio::test]
async fn a_descriptor_without_entries_meets_no_rule() {
    let mut server = GrpcServer::start("no-entries").await;
    assert_eq!(server.limit_shop(&[Default::default(), descriptor("", "")]).await, "OK [OK 0, OK 0]");
}

#[tokio::test]
async fn a_message_above_a_mebibyte_is_refused_and_the_connection_goes_on() {
    let mut server = GrpcServer::start("large").await;
    let large = "x".repeat(1 << 20);
    let refused = server.send(request("shop", &[descriptor("path", &large)])).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OK [OK 1 of 2]");
}

#[tokio::test]
async fn entries_longer_than_a_key_are_counted() {
    let mut server = GrpcServer::start("long").await;
    let [long, other] = ["x", "y"].map(|value| value.repeat(4_097));
    // Alone and among others: long entries must not bypass the limits.
    assert_eq!(server.limit_shop(&[descriptor("path", &long)]).await, "OK [OK 4 of 5]");
    assert_eq!(server.limit_shop(&[descriptor("path", &other)]).await, "OK [OK 4 of 5]");
    assert_eq!(
        server.limit_shop(&[descriptor("path", &long), descriptor("path", "/login")]).await,
        "OK [OK 3 of 5, OK 1 of 2]"
    );
    assert_eq!(
        server.limit_shop(&[descriptor("nobody", &long), descriptor("path", "/login")]).await,
        "OK [OK 0, OK 0 of 2]"
    );
    let over = server.limit_shop(&[descriptor("path", &long), descriptor("path", "/login")]).await;
    assert!(over.starts_with("OVER_LIMIT"), "{over}");
}

#[tokio::test]
async fn a_call_without_the_token_is_unauthenticated() {
    let config = write_file("grpc-token.yaml", RULES);
    let program = Program::start_with_env(&["--config", &config], &[("TIDEGATE_TOKEN", "correct-horse-battery")]);
    let mut client = RateLimitServiceClient::new(channel(&program).await);
    for (shown, expected) in [
        (None, Err(Code::Unauthenticated)),
        (Some("Bearer correct-horse"), Err(Code::Unauthenticated)),
        (Some("correct-horse-battery-staple"), Err(Code::Unauthenticated)),
        (Some("Bearer correct-horse-battery"), Ok("OK [OK 1 of 2]".to_owned())),
    ] {
        let mut asking = tonic::Request::new(request("shop", &[descriptor("path", "/login")]));
        if let Some(shown) = shown {
            asking.metadata_mut().insert("authorization", AsciiMetadataValue::from_static(shown));
        }
        let answer = client.should_rate_limit(asking).await;
        let answer = answer.map(|answer| response_summary(answer.get_ref())).map_err(|refused| refused.code());
        assert_eq!(answer, expected, "{shown:?}");
    }
    // A health probe has no token.
    super::health::check_health(&program, "").await.expect("an answer");
    // A call that lasts as long as the server does need one.
    assert_eq!(super::health::watch_health(&program).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(super::reflection::list_services(&program).await.unwrap_err().code(), Code::Unauthenticated);
}

/// A browser sends the first content types without a preflight; for the last one, the preflight fails.
#[tokio::test]
async fn a_page_of_another_site_may_not_call_grpc() {
    let mut server = GrpcServer::start("pages").await;
    let address = server.program.grpc.expect("a port");
    let url = format!("http://{address}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
    let message = request("shop", &[descriptor("path", "/login")]).encode_to_vec();
    let body = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
    let client = Client::builder().http2_prior_knowledge().build().expect("a client");
    for (kind, site, status) in [
        (None, "none", 415),
        (Some("text/plain"), "cross-site", 415),
        (Some("application/grpc"), "cross-site", 403),
        (Some("application/grpc+proto"), "same-site", 403),
        (Some("application/grpc"), "none", 200),
    ] {
        let request = client.post(&url).header("sec-fetch-site", site).body(body.clone());
        let request = if let Some(kind) = kind { request.header("content-type", kind) } else { request };
        assert_eq!(request.send().await.expect("an answer").status(), status, "{kind:?} {site}");
    }
    let before = client.request(reqwest::Method::OPTIONS, &url).header("access-control-request-method", "POST");
    assert_eq!(before.send().await.expect("an answer").status(), 415);
    assert_eq!(
        server.limit_shop(&[descriptor("path", "/login")]).await,
        "OK [OK 0 of 2]",
        "only one has taken something"
    );
}

#[test]
fn http_1_is_refused_without_a_wait() {
    let program = Program::start(&[]);
    for path in ["/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"] {
        let mut stream = TcpStream::connect(program.grpc.expect("a port")).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
        let head = "HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc\r\ncontent-length: 5";
        stream.write_all(format!("POST {path} {head}\r\n\r\n").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer, and then the end");
        assert!(answer.starts_with("HTTP/1.1 505 "), "{path}: {answer}");
    }
}
