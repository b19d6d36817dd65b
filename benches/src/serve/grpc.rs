//! The gRPC benchmark: Envoy's rate limit service of Tidegate and limitador, and throttlecrab's own service.

use std::fmt::Debug;
use std::time::Instant;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message;
use tidegate_servers::Program;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::contest::{Contestant, LoadResult, compare};
use super::frames::Connection;
use super::{KEYS, LARGE_QUOTA, ONE_THREAD, start_own_server, start_throttlecrabs, start_tidegates};
use crate::workload::{Random, next_seed};

const CONNECTIONS: u64 = 8;
/// The calls in flight on each connection.
const STREAMS: u64 = 16;
const CALLS: u64 = 40_000;

pub(super) fn run() {
    let rules = format!(
        "domain: bench\ndescriptors:\n- key: user\n  rate_limit:\n    unit: minute\n    requests_per_unit: {LARGE_QUOTA}\n"
    );
    let config = "[envoy]\nconfigs = [\"ratelimit.yaml\"]\n";
    let [ours, one] = start_tidegates("grpc", &[("limits.toml", config), ("ratelimit.yaml", &rules)], "1");
    let [crab, single] = start_throttlecrabs("grpc");
    let [limitador, alone] = [start_own_server("limitador", &[]), start_own_server("limitador", &ONE_THREAD)];
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    println!(
        "\ngRPC, {CONNECTIONS} connections with {STREAMS} calls in flight each; expected: more than 1x of both peers"
    );
    compare(&[
        contestant::<RateLimitRequest>("tidegate, Envoy's ShouldRateLimit", &ours, &runtime, is_counted),
        contestant::<RateLimitRequest>("tidegate with one thread", &one, &runtime, is_counted),
        contestant::<RateLimitRequest>("limitador's library, Envoy's service", &limitador, &runtime, is_allowed),
        contestant::<RateLimitRequest>("limitador with one thread", &alone, &runtime, is_allowed),
        contestant::<ThrottleRequest>("throttlecrab, its own Throttle", &crab, &runtime, |answer| answer.allowed),
        contestant::<ThrottleRequest>("throttlecrab with one thread", &single, &runtime, |answer| answer.allowed),
    ]);
}

/// A request about a key.
trait GrpcRequest: Message + 'static {
    const PATH: &'static str;
    type Response: Message + Default + Debug + 'static;

    fn for_key(key: String) -> Self;
}

impl GrpcRequest for RateLimitRequest {
    const PATH: &'static str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    type Response = RateLimitResponse;

    fn for_key(key: String) -> Self {
        let entry = Entry { key: "user".to_owned(), value: key };
        let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
        RateLimitRequest { domain: "bench".to_owned(), descriptors: vec![descriptor], hits_addend: 1 }
    }
}

/// Returns whether a limit allowed the request. Without a limit, nothing was counted.
fn is_counted(answer: &RateLimitResponse) -> bool {
    is_allowed(answer) && answer.statuses.iter().any(|status| status.current_limit.is_some())
}

/// Returns whether the request was allowed. limitador's answer has no more; its server asserts that it counts.
fn is_allowed(answer: &RateLimitResponse) -> bool {
    answer.overall_code() == Code::Ok
}

/// The request of throttlecrab.
#[derive(Clone, PartialEq, Message)]
struct ThrottleRequest {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    max_burst: i32,
    #[prost(int32, tag = "3")]
    count_per_period: i32,
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, tag = "5")]
    quantity: i32,
}

/// The answer of throttlecrab.
#[derive(Clone, PartialEq, Message)]
struct ThrottleResponse {
    #[prost(bool, tag = "1")]
    allowed: bool,
    #[prost(int32, tag = "2")]
    limit: i32,
    #[prost(int32, tag = "3")]
    remaining: i32,
    #[prost(int32, tag = "4")]
    retry_after: i32,
    #[prost(int32, tag = "5")]
    reset_after: i32,
}

impl GrpcRequest for ThrottleRequest {
    const PATH: &'static str = "/throttlecrab.RateLimiter/Throttle";
    type Response = ThrottleResponse;

    fn for_key(key: String) -> Self {
        let large_quota = LARGE_QUOTA as i32;
        ThrottleRequest { key, max_burst: large_quota, count_per_period: large_quota, period: 60, quantity: 1 }
    }
}

fn contestant<'a, R: GrpcRequest>(
    name: &'a str,
    server: &'a Program,
    runtime: &'a Runtime,
    is_expected: fn(&R::Response) -> bool,
) -> Contestant<'a> {
    Contestant { name, server, run_load: Box::new(move || runtime.block_on(run_load::<R>(server.port(), is_expected))) }
}

async fn run_load<R: GrpcRequest>(port: u16, is_expected: fn(&R::Response) -> bool) -> LoadResult {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(port, R::PATH).await);
    }
    let (began, mut tasks) = (Instant::now(), JoinSet::new());
    for connection in connections {
        let seed = next_seed();
        tasks.spawn(async move {
            let mut random = Random(seed << 32);
            let next = move || R::for_key(format!("{:06}", random.next() % KEYS));
            connection
                .run_calls(STREAMS, CALLS / CONNECTIONS, next, |answer| {
                    let answer = R::Response::decode(answer).expect("an answer");
                    assert!(is_expected(&answer), "not allowed, or not counted: {answer:?}");
                })
                .await;
        });
    }
    tasks.join_all().await;
    LoadResult { requests: CALLS as f64, per_second: CALLS as f64 / began.elapsed().as_secs_f64() }
}
