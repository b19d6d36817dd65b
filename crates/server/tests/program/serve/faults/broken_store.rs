//! A store that breaks and comes back, seen from every port.

use std::path::Path;

use serde_json::Value;
use tidegate_servers::{Redis, required_env, wait_until};
use tonic::Code;

use crate::serve::grpc::{channel, descriptor, request};
use crate::serve::program::Program;
use crate::serve::resp::replies;
use crate::serve::{get, url, write_file};

use super::{assert_clean_shutdown, metric_value};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 100}
";

fn start_server(redis: &Redis, policy: &str) -> Program {
    // A working store answers within that time even on a busy machine.
    start_server_with(redis, policy, &format!("on_store_error = \"{policy}\"\nstore_timeout = \"1s\"\n"))
}

fn start_server_with(redis: &Redis, policy: &str, defaults: &str) -> Program {
    let rules = format!("faults-store-{policy}.yaml");
    write_file(&rules, RULES);
    let defaults = format!("[defaults]\n{defaults}");
    let config =
        write_file(&format!("faults-store-{policy}.toml"), format!("{defaults}[envoy]\nconfigs = [\"{rules}\"]\n"));
    Program::start(&["--config", &config, "--store", &redis.url()])
}

fn start_redis() -> Redis {
    let [server, cli] = ["TIDEGATE_REDIS_SERVER", "TIDEGATE_REDIS_CLI"].map(required_env);
    Redis::start(Path::new(&server), Path::new(&cli), &[]).expect("a server")
}

fn limit_over_http(program: &Program) -> (u16, Value) {
    let client = reqwest::blocking::Client::new();
    let answer = client.post(url(program, "/v1/limit")).body(r#"{"limit":"shop.user","key":"u"}"#).send();
    let answer = answer.expect("an answer");
    (answer.status().as_u16(), answer.json().expect("JSON"))
}

fn limit_over_resp(program: &Program) -> String {
    replies(program, "TG.LIMIT shop.user u\r\n")
}

fn limit_over_grpc(program: &Program) -> Result<i32, Code> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut client = RateLimitClient::new(channel(program).await);
        let answer = client.should_rate_limit(request("shop", &[descriptor("user", "u")])).await;
        answer.map(|answer| answer.into_inner().overall_code).map_err(|status| status.code())
    })
}

type RateLimitClient =
    envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient<
        tonic::transport::Channel,
    >;

fn breaker_state(program: &Program) -> f64 {
    metric_value(program, "tidegate_breaker_state{store=\"redis\"}")
}

/// Breaks the store, sends requests until the breaker is open, and checks. Then restarts the store, which is empty.
fn assert_outage_and_recovery(policy: &str, broken: impl Fn(&Program)) {
    let mut redis = start_redis();
    let program = start_server(&redis, policy);
    let works = |program: &Program, left: u64| {
        let (status, decision) = limit_over_http(program);
        assert_eq!((status, &decision["reason"], decision["remaining"].as_u64()), (200, &Value::Null, Some(left)));
        assert!(limit_over_resp(program).starts_with(&format!("*5\r\n:1\r\n:100\r\n:{}\r\n", left - 1)));
        assert_eq!(limit_over_grpc(program), Ok(1));
    };
    works(&program, 99);
    assert_eq!(breaker_state(&program), 0.0);

    redis.kill();
    // Before the breaker is open and after.
    (0..5).for_each(|_| broken(&program));
    assert_eq!(breaker_state(&program), 2.0, "it is open");
    program.wait_for_log("the store is left alone");
    let page = get(&program, "/metrics");
    let errors = page.lines().filter(|line| line.starts_with("tidegate_store_errors_total{"));
    assert!(
        errors.map(|line| line.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)).sum::<u64>() >= 5
    );

    redis.restart();
    // The request that the breaker lets through is the first to reach the store.
    let works_again = |(status, decision): (u16, Value)| status == 200 && decision["reason"].is_null();
    assert!(wait_until(|| works_again(limit_over_http(&program))), "it goes on");
    assert_eq!(breaker_state(&program), 0.0);
    program.wait_for_log("the store answers again");
    let (_, decision) = limit_over_http(&program);
    works(&program, decision["remaining"].as_u64().expect("a number") - 1);
    assert_clean_shutdown(program);
}

#[test]
fn a_broken_store_admits_under_open_and_is_reported() {
    assert_outage_and_recovery("open", |program| {
        let (status, decision) = limit_over_http(program);
        assert_eq!(
            (status, &decision["allowed"], decision["reason"].as_str()),
            (200, &Value::Bool(true), Some("store"))
        );
        assert_eq!(limit_over_resp(program), "*5\r\n:1\r\n:100\r\n:0\r\n:-1\r\n:0\r\n");
        assert_eq!(limit_over_grpc(program), Ok(1));
    });
}

#[test]
fn a_broken_store_denies_under_closed() {
    assert_outage_and_recovery("closed", |program| {
        let (status, problem) = limit_over_http(program);
        assert_eq!((status, problem["status"].as_u64()), (503, Some(503)), "{problem}");
        assert!(limit_over_resp(program).starts_with("-UNAVAILABLE "));
        assert_eq!(limit_over_grpc(program), Err(Code::Unavailable));
    });
}

/// Each of four servers admits a fourth of the hundred.
#[test]
fn a_broken_store_gives_each_replica_its_share_under_local() {
    let mut redis = start_redis();
    let defaults = "on_store_error = \"local\"\nstore_timeout = \"1s\"\nexpected_replicas = 4\n";
    let program = start_server_with(&redis, "local", defaults);
    assert_eq!(limit_over_http(&program).1["remaining"], 99);
    redis.kill();
    let allowed = (0..40).filter(|_| limit_over_http(&program).1["allowed"] == true).count();
    assert_eq!(allowed, 25);
    assert!(limit_over_resp(&program).starts_with("*5\r\n:0\r\n"));
    assert_eq!(limit_over_grpc(&program), Ok(2));
    assert_clean_shutdown(program);
}

/// The store hangs: first for a moment within the timeout, and then forever.
#[test]
fn a_hanging_store_times_out_as_configured() {
    let redis = start_redis();
    let patient = start_server_with(&redis, "patient", "on_store_error = \"open\"\nstore_timeout = \"20s\"\n");
    assert_eq!(limit_over_http(&patient).1["remaining"], 99);
    redis.cli(&["CLIENT", "PAUSE", "500", "ALL"]);
    assert_eq!(limit_over_http(&patient).1["reason"], Value::Null, "it was waited for");
    assert_clean_shutdown(patient);

    let hasty = start_server_with(&redis, "hasty", "on_store_error = \"open\"\nstore_timeout = \"300ms\"\n");
    redis.pause();
    // A request to the hanging store waits until its client times out.
    assert_eq!(limit_over_http(&hasty).1["reason"], "store");
    assert_eq!(limit_over_resp(&hasty), "*5\r\n:1\r\n:100\r\n:0\r\n:-1\r\n:0\r\n");
    assert_eq!(limit_over_grpc(&hasty), Ok(1));
    redis.resume();
    assert!(wait_until(|| limit_over_http(&hasty).1["reason"].is_null()), "it goes on");
    assert_clean_shutdown(hasty);
}

/// All limits that clients name themselves share one label.
#[test]
fn an_unknown_limit_name_is_no_label_with_a_broken_store() {
    let mut redis = start_redis();
    let program = start_server(&redis, "open");
    redis.kill();
    let quota = r#"{"algorithm":"token_bucket","rate":10,"period_us":1000000}"#;
    let request_json =
        |limit: &str| format!(r#"{{"limit":"{limit}","key":"u","op":"limit","cost":1,"quota":{quota}}}"#);
    let call = format!(r#"{{"mode":"each","requests":[{},{}]}}"#, request_json("made-up"), request_json("THROTTLE"));
    let client = reqwest::blocking::Client::new();
    let answer = client.post(url(&program, "/v1/apply")).body(call).send().expect("an answer");
    assert_eq!(answer.status(), 200);
    let page = get(&program, "/metrics");
    assert!(!page.contains("made-up"), "{page}");
    for limit in ["/v1/apply", "THROTTLE"] {
        assert!(page.contains(&format!("tidegate_fallback_total{{limit=\"{limit}\"")), "{page}");
    }
}
