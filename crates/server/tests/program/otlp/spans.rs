//! Exported spans: their parents, names and status, and that no key is in them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::json;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::otlp::receiver::{OtlpReceiver, attributes_text};
use crate::otlp::{Program, post_limit, temp_path, url, write_config};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends a request of cost 1 within a trace.
fn limit_within_trace(program: &Program, key: &str, sampled: bool) {
    let client = reqwest::blocking::Client::new();
    let parent = format!("00-{TRACE}-{PARENT}-{:02x}", u8::from(sampled));
    let request = client.post(url(program, "/v1/limit")).header("traceparent", parent);
    request.json(&json!({ "limit": "api", "key": key })).send().expect("answered");
}

fn spans_named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[test]
fn store_span_is_a_child_of_the_request_span_in_the_trace_of_the_client() {
    let (receiver, file) = (OtlpReceiver::start(), temp_path("spans.db"));
    let store = format!("sqlite:{file}");
    let arguments = ["--config", &write_config("spans.toml"), "--otlp", &receiver.url(), "--store", &store];
    let program = Program::start(&arguments);
    limit_within_trace(&program, "u1", true);
    assert!(program.stop().0.success());
    fs::remove_file(file).expect("it was there");

    let spans = receiver.spans();
    let (requests, calls) = (spans_named(&spans, "POST /v1/limit"), spans_named(&spans, "store"));
    assert_eq!((requests.len(), calls.len(), spans.len()), (1, 1, 2), "{spans:?}");
    assert_eq!((hex(&requests[0].trace_id), hex(&requests[0].parent_span_id)), (TRACE.into(), PARENT.into()));
    assert_eq!((&calls[0].trace_id, &calls[0].parent_span_id), (&requests[0].trace_id, &requests[0].span_id));
    assert_eq!(requests[0].kind(), SpanKind::Server);
    let about = "http.request.method=POST http.response.status_code=200 http.route=/v1/limit";
    assert_eq!(attributes_text(&requests[0].attributes), about);
    let about = "call=apply limit=api op=limit outcome=allowed requests=1 store=sqlite";
    assert_eq!(attributes_text(&calls[0].attributes), about);
}

#[test]
fn grpc_calls_have_request_spans_and_redis_commands_only_store_spans() {
    let (receiver, file) = (OtlpReceiver::start(), temp_path("ports.db"));
    let store = format!("sqlite:{file}");
    let arguments = ["--config", &write_config("ports.toml"), "--otlp", &receiver.url(), "--store", &store];
    let program = Program::start(&arguments);
    let mut resp = TcpStream::connect(program.resp.expect("a port")).expect("connected");
    resp.write_all(b"*3\r\n$8\r\nTG.LIMIT\r\n$3\r\napi\r\n$2\r\nu1\r\n").expect("sent");
    resp.read_exact(&mut [0; 4]).expect("answered");
    let grpc = format!("http://{}", program.grpc.expect("a port"));
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let channel = Endpoint::from_shared(grpc).expect("a URL").connect().await.expect("connected");
        let mut client = HealthClient::new(channel);
        client.check(HealthCheckRequest::default()).await.expect("answered");
    });
    assert!(program.stop().0.success());
    fs::remove_file(file).expect("it was there");

    let spans = receiver.spans();
    let (calls, health) = (spans_named(&spans, "store"), spans_named(&spans, "grpc.health.v1.Health"));
    assert_eq!((calls.len(), health.len(), spans.len()), (1, 1, 2), "{spans:?}");
    assert!(calls[0].parent_span_id.is_empty());
    assert!(attributes_text(&health[0].attributes).ends_with("rpc.service=grpc.health.v1.Health rpc.system=grpc"));
}

#[test]
fn server_errors_are_error_spans_and_client_errors_are_not() {
    let receiver = OtlpReceiver::start();
    let arguments = ["--config", &write_config("failing.toml"), "--otlp", &receiver.url()];
    let program = Program::start(&arguments);
    let grpc = format!("http://{}", program.grpc.expect("a port"));
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let channel = Endpoint::from_shared(grpc).expect("a URL").connect().await.expect("connected");
        let mut limits = RateLimitServiceClient::new(channel.clone());
        let refused = limits.should_rate_limit(RateLimitRequest::default()).await.expect_err("no domain is named");
        assert_eq!(refused.code(), tonic::Code::Unknown);
        let unknown_service = HealthCheckRequest { service: "nobody".to_owned() };
        HealthClient::new(channel).check(unknown_service).await.expect_err("nobody is there");
    });
    assert!(program.stop().0.success());

    let spans = receiver.spans();
    for (service, code, status) in [
        ("envoy.service.ratelimit.v3.RateLimitService", 2, StatusCode::Error),
        ("grpc.health.v1.Health", 5, StatusCode::Unset),
    ] {
        let [span] = spans_named(&spans, service)[..] else { panic!("{service} in {spans:?}") };
        assert!(attributes_text(&span.attributes).contains(&format!("rpc.grpc.status_code={code} ")), "{span:?}");
        assert_eq!(span.status.as_ref().map_or(StatusCode::Unset, |status| status.code()), status, "{service}");
    }
}

#[test]
fn exported_telemetry_contains_no_key() {
    const KEY: &str = "alice-at-home";
    let (receiver, file) = (OtlpReceiver::start(), temp_path("keys.db"));
    let store = format!("sqlite:{file}");
    let arguments =
        ["--config", &write_config("keys.toml"), "--otlp", &receiver.url(), "--store", &store, "--log-keys"];
    // With debug logging: a log event within a span must not be exported with it.
    let program = Program::start_with_env(&arguments, &[("RUST_LOG", "trace")]);
    (0..7).for_each(|_| drop(post_limit(&program, "api", KEY)));
    post_limit(&program, KEY, KEY);
    let client = reqwest::blocking::Client::new();
    let auth = url(&program, &format!("/v1/auth?limit=api&key={KEY}"));
    assert_eq!(client.get(auth).send().expect("answered").status(), 429);
    let elsewhere = url(&program, &format!("/{KEY}"));
    assert_eq!(client.get(&elsewhere).send().expect("answered").status(), 404);
    let made_up = reqwest::Method::from_bytes(KEY.as_bytes()).expect("a method");
    assert_eq!(client.request(made_up, &elsewhere).send().expect("answered").status(), 404);
    let (status, log) = program.stop();
    assert!(status.success());
    assert!(log.iter().any(|line| line.contains(KEY)), "the log was told to have them");
    fs::remove_file(file).expect("it was there");

    let spans = receiver.spans();
    let count = |name| spans_named(&spans, name).len();
    assert_eq!((count("POST /v1/limit"), count("GET /v1/auth"), count("GET"), count("_OTHER")), (8, 1, 1, 1));
    assert_eq!((count("store"), spans.len()), (8, 19), "and nobody else's");
    assert!(
        receiver.contains_text("/v1/limit") && receiver.contains_text("tidegate.decisions"),
        "it is looked for in the right place"
    );
    assert!(!receiver.contains_text(KEY));
}

#[test]
fn the_sampler_from_the_environment_is_used() {
    let receiver = OtlpReceiver::start();
    let arguments = ["--config", &write_config("sampler.toml"), "--otlp", &receiver.url()];
    let program = Program::start_with_env(&arguments, &[("OTEL_TRACES_SAMPLER", "parentbased_always_off")]);
    post_limit(&program, "api", "u1");
    limit_within_trace(&program, "u1", false);
    limit_within_trace(&program, "u1", true);
    assert!(program.stop().0.success());
    let traces: Vec<_> = receiver.spans().iter().map(|span| hex(&span.trace_id)).collect();
    assert_eq!(traces, [TRACE]);
    let allowed = ("limit=api outcome=allowed".to_owned(), 3);
    assert!(receiver.points("tidegate.decisions").contains(&allowed), "metrics are not sampled");
}
