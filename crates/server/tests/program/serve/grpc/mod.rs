//! Envoy's rate limit service over gRPC, with a gRPC client.

mod health;
mod hits;
mod reflection;
mod refusals;
mod reload;
mod rules;
mod statuses;
#[cfg(feature = "_real-servers")]
mod stores;
mod tls;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{Entry, RateLimitOverride};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use envoy_types::pb::google::protobuf::UInt64Value;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::serve::program::Program;
use crate::serve::write_file;

/// Units are years, so that no window ends in the middle of a test.
const RULES: &str = "
domain: shop
descriptors:
  - key: path
    value: /login
    rate_limit: {unit: year, requests_per_unit: 2, name: login}
  - key: path
    rate_limit: {unit: year, requests_per_unit: 5}
  - key: internal
    rate_limit: {unlimited: true}
  - key: banned
    rate_limit: {unit: year, requests_per_unit: 0}
  - key: muted
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 0}
  - key: watched
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: agent
    value: bot*
    share_threshold: true
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: agent
    value: app*
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: plan
    rate_limit: {unit: year, requests_per_unit: 9, name: plan, replaces: [{name: login}]}
  - key: pool
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: reserve
    quota_mode: true
    rate_limit: {unit: year, requests_per_unit: 2}
";

/// A server, and a gRPC client connected to it.
struct GrpcServer {
    program: Program,
    client: RateLimitServiceClient<Channel>,
}

impl GrpcServer {
    /// Serves [`RULES`]. Each test has its own name, because tests run concurrently.
    async fn start(name: &str) -> Self {
        GrpcServer::start_with(&["--config", &write_file(&format!("grpc-{name}.yaml"), RULES)]).await
    }

    async fn start_with(arguments: &[&str]) -> Self {
        let program = Program::start(arguments);
        let client = RateLimitServiceClient::new(channel(&program).await);
        GrpcServer { program, client }
    }

    async fn send(&mut self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        Ok(self.client.should_rate_limit(request).await?.into_inner())
    }

    /// Requests descriptors of the domain `shop`, and returns the response.
    async fn limit_shop(&mut self, descriptors: &[RateLimitDescriptor]) -> String {
        response_summary(&self.send(request("shop", descriptors)).await.expect("an answer"))
    }
}

pub(crate) async fn channel(program: &Program) -> Channel {
    let address = format!("http://{}", program.grpc.expect("a port"));
    Endpoint::from_shared(address).expect("an address").connect().await.expect("a connection")
}

pub(crate) fn request(domain: &str, descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest { domain: domain.to_owned(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

/// A descriptor of one entry.
pub(crate) fn descriptor(key: &str, value: &str) -> RateLimitDescriptor {
    let entry = Entry { key: key.to_owned(), value: value.to_owned() };
    RateLimitDescriptor { entries: vec![entry], ..Default::default() }
}

/// Returns the descriptor with its own limit.
fn with_override(descriptor: RateLimitDescriptor, requests_per_unit: u32, unit: RateLimitUnit) -> RateLimitDescriptor {
    let limit = RateLimitOverride { requests_per_unit, unit: unit.into() };
    RateLimitDescriptor { limit: Some(limit), ..descriptor }
}

/// Returns the descriptor with its own hits.
fn with_hits(descriptor: RateLimitDescriptor, hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(UInt64Value { value: hits }), ..descriptor }
}

/// Returns a response in short, such as `OVER_LIMIT [OVER_LIMIT 0 of 2, OK 4294967295]`.
fn response_summary(response: &RateLimitResponse) -> String {
    let one = |status: &DescriptorStatus| {
        let limit = status.current_limit.as_ref();
        let limit = limit.map_or(String::new(), |limit| format!(" of {}", limit.requests_per_unit));
        format!("{} {}{limit}", status.code().as_str_name(), status.limit_remaining)
    };
    let statuses: Vec<_> = response.statuses.iter().map(one).collect();
    let overall = Code::try_from(response.overall_code).expect("a code").as_str_name();
    format!("{overall} [{}]", statuses.join(", "))
}
