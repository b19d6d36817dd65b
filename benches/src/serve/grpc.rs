//! gRPC, asked by one client of tonic's: Envoy's rate limit service beside throttlecrab's own.

use std::time::Instant;

use axum::http::uri::PathAndQuery;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message;
use tidegate_servers::Program;
use tokio::runtime::{Builder, Runtime};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::contest::{Asked, Contestant, compare};
use super::{KEYS, PLENTY, throttlecrab, tidegate};
use crate::workload::Random;

const CONNECTIONS: u64 = 8;
/// Calls under way at a time, on each connection.
const STREAMS: u64 = 16;
const CALLS: u64 = 100_000;

pub(super) fn run() {
    let rules = format!(
        "domain: bench\ndescriptors:\n- key: user\n  rate_limit:\n    unit: minute\n    requests_per_unit: {PLENTY}\n"
    );
    let config = "[envoy]\nconfigs = [\"ratelimit.yaml\"]\n";
    let (ours, crab) = (tidegate("grpc", &[("limits.toml", config), ("ratelimit.yaml", &rules)]), throttlecrab("grpc"));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    println!(
        "\ngRPC, {CONNECTIONS} connections with {STREAMS} calls each under way; expected of throttlecrab's: more than 1x"
    );
    compare(&[
        contestant::<RateLimitRequest>("tidegate, Envoy's ShouldRateLimit", &ours, &runtime),
        contestant::<ThrottleRequest>("throttlecrab, its own Throttle", &crab, &runtime),
    ]);
}

/// A question about a key.
trait Question: Message + 'static {
    const PATH: &'static str;
    type Answer: Message + Default + 'static;

    fn about(key: String) -> Self;
    fn is_allowed(answer: &Self::Answer) -> bool;
}

impl Question for RateLimitRequest {
    const PATH: &'static str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    type Answer = RateLimitResponse;

    fn about(key: String) -> Self {
        let entry = Entry { key: "user".to_owned(), value: key };
        let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
        RateLimitRequest { domain: "bench".to_owned(), descriptors: vec![descriptor], hits_addend: 1 }
    }

    fn is_allowed(answer: &Self::Answer) -> bool {
        // With a limit: without one, nothing was counted.
        answer.overall_code() == Code::Ok && answer.statuses.iter().any(|status| status.current_limit.is_some())
    }
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

    fn is_allowed(answer: &Self::Answer) -> bool {
        answer.allowed
    }
}

fn contestant<'a, Q: Question>(name: &'a str, server: &'a Program, runtime: &'a Runtime) -> Contestant<'a> {
    let connect = async || {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", server.port())).expect("an address");
        endpoint.connect().await.expect("the server listens")
    };
    let channels: Vec<Channel> = runtime.block_on(async {
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            channels.push(connect().await);
        }
        channels
    });
    Contestant { name, server, ask: Box::new(move || runtime.block_on(ask::<Q>(&channels))) }
}

async fn ask<Q: Question>(channels: &[Channel]) -> Asked {
    let began = Instant::now();
    let each = CALLS / (CONNECTIONS * STREAMS);
    let mut tasks = Vec::new();
    for (number, channel) in channels.iter().flat_map(|channel| vec![channel; STREAMS as usize]).enumerate() {
        let mut client = Grpc::new(channel.clone());
        tasks.push(tokio::spawn(async move {
            let mut random = Random(number as u64);
            for _ in 0..each {
                let question = tonic::Request::new(Q::about(format!("{:06}", random.next() % KEYS)));
                client.ready().await.expect("the server is there");
                let codec = ProstCodec::<Q, Q::Answer>::default();
                let answer = client.unary(question, PathAndQuery::from_static(Q::PATH), codec).await;
                assert!(Q::is_allowed(answer.expect("an answer").get_ref()), "not allowed, or not counted");
            }
        }));
    }
    let requests = (each * tasks.len() as u64) as f64;
    for task in tasks {
        task.await.expect("no panics here");
    }
    Asked { requests, per_second: requests / began.elapsed().as_secs_f64() }
}
