//! gRPC, asked with prepared frames: Envoy's rate limit service beside the same of limitador and throttlecrab's own.

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

use super::contest::{Asked, Contestant, compare};
use super::frames::Connection;
use super::{KEYS, ONE_THREAD, PLENTY, own, throttlecrabs, tidegates};
use crate::workload::{Random, seed};

const CONNECTIONS: u64 = 8;
/// Calls under way at a time, on each connection.
const STREAMS: u64 = 16;
const CALLS: u64 = 40_000;

pub(super) fn run() {
    let rules = format!(
        "domain: bench\ndescriptors:\n- key: user\n  rate_limit:\n    unit: minute\n    requests_per_unit: {PLENTY}\n"
    );
    let config = "[envoy]\nconfigs = [\"ratelimit.yaml\"]\n";
    let [ours, one] = tidegates("grpc", &[("limits.toml", config), ("ratelimit.yaml", &rules)], "1");
    let [crab, single] = throttlecrabs("grpc");
    let [limitador, alone] = [own("limitador", &[]), own("limitador", &ONE_THREAD)];
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    println!(
        "\ngRPC, {CONNECTIONS} connections with {STREAMS} calls each under way; expected of both peers: more than 1x"
    );
    compare(&[
        contestant::<RateLimitRequest>("tidegate, Envoy's ShouldRateLimit", &ours, &runtime, is_counted),
        contestant::<RateLimitRequest>("the same with one thread", &one, &runtime, is_counted),
        contestant::<RateLimitRequest>("limitador's library behind the same", &limitador, &runtime, is_allowed),
        contestant::<RateLimitRequest>("the same with one thread", &alone, &runtime, is_allowed),
        contestant::<ThrottleRequest>("throttlecrab, its own Throttle", &crab, &runtime, |answer| answer.allowed),
        contestant::<ThrottleRequest>("the same with one thread", &single, &runtime, |answer| answer.allowed),
    ]);
}

/// A question about a key.
trait Question: Message + 'static {
    const PATH: &'static str;
    type Answer: Message + Default + Debug + 'static;

    fn about(key: String) -> Self;
}

impl Question for RateLimitRequest {
    const PATH: &'static str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    type Answer = RateLimitResponse;

    fn about(key: String) -> Self {
        let entry = Entry { key: "user".to_owned(), value: key };
        let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
        RateLimitRequest { domain: "bench".to_owned(), descriptors: vec![descriptor], hits_addend: 1 }
    }
}

/// Allowed by a limit: without one, nothing was counted.
fn is_counted(answer: &RateLimitResponse) -> bool {
    is_allowed(answer) && answer.statuses.iter().any(|status| status.current_limit.is_some())
}

/// All that limitador says; that it counts is seen to in its server.
fn is_allowed(answer: &RateLimitResponse) -> bool {
    answer.overall_code() == Code::Ok
}

/// What throttlecrab is asked with.
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

/// What it answers.
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

impl Question for ThrottleRequest {
    const PATH: &'static str = "/throttlecrab.RateLimiter/Throttle";
    type Answer = ThrottleResponse;

    fn about(key: String) -> Self {
        let plenty = PLENTY as i32;
        ThrottleRequest { key, max_burst: plenty, count_per_period: plenty, period: 60, quantity: 1 }
    }
}

fn contestant<'a, Q: Question>(
    name: &'a str,
    server: &'a Program,
    runtime: &'a Runtime,
    is_well: fn(&Q::Answer) -> bool,
) -> Contestant<'a> {
    Contestant { name, server, ask: Box::new(move || runtime.block_on(ask::<Q>(server.port(), is_well))) }
}

async fn ask<Q: Question>(port: u16, is_well: fn(&Q::Answer) -> bool) -> Asked {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(port, Q::PATH).await);
    }
    let (began, mut tasks) = (Instant::now(), JoinSet::new());
    for connection in connections {
        let seed = seed();
        tasks.spawn(async move {
            let mut random = Random(seed << 32);
            let next = move || Q::about(format!("{:06}", random.next() % KEYS));
            connection
                .ask(STREAMS, CALLS / CONNECTIONS, next, |answer| {
                    let answer = Q::Answer::decode(answer).expect("an answer");
                    assert!(is_well(&answer), "not allowed, or not counted: {answer:?}");
                })
                .await;
        });
    }
    tasks.join_all().await;
    Asked { requests: CALLS as f64, per_second: CALLS as f64 / began.elapsed().as_secs_f64() }
}
