//! A server of Envoy's rate limit service over the library of limitador.
//!
//! limitador's own server is in no package registry. This one calls the library as that server does, without its spans
//! and Prometheus metrics.

use std::collections::HashMap;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use limitador::RateLimiter;
use limitador::limit::{Context, Limit};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::{KEYS, LARGE_QUOTA};

/// Serves until it is killed, with tokio's default number of threads.
pub(crate) fn serve(port: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let limiter = RateLimiter::new(4 * KEYS);
    let user = "descriptors[0].user".try_into().expect("an expression");
    limiter.add_limit(Limit::new("bench", LARGE_QUOTA.into(), 60, Vec::new(), vec![user]));
    let service = RateLimitServiceServer::new(Limitador(limiter));
    let address = format!("127.0.0.1:{port}").parse().expect("a port");
    runtime.block_on(Server::builder().add_service(service).serve(address)).expect("served");
}

struct Limitador(RateLimiter);

#[tonic::async_trait]
impl RateLimitService for Limitador {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let RateLimitRequest { domain, descriptors, hits_addend } = request.into_inner();
        let entries = descriptors.into_iter().map(|descriptor| {
            descriptor.entries.into_iter().map(|entry| (entry.key, entry.value)).collect::<HashMap<_, _>>()
        });
        let mut context = Context::default();
        context.list_binding("descriptors".to_owned(), entries.collect());
        let hits = u64::from(hits_addend.max(1));
        let result = self.0.check_rate_limited_and_update(&domain.into(), &context, hits);
        let result = result.map_err(|error| Status::unavailable(error.to_string()))?;
        // The answer does not have it: where no limit applies, every request is allowed without a count.
        assert_eq!(result.counters.len(), 1, "one counter for each request");
        let code = if result.limited { Code::OverLimit } else { Code::Ok };
        Ok(Response::new(RateLimitResponse { overall_code: code.into(), ..Default::default() }))
    }
}
