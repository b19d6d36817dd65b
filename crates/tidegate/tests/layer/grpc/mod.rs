//! The layer with gRPC responses, in front of tonic's health service: `Check` is unary, `Watch` streams.

mod calls;
mod statuses;
mod trailers;

use tidegate::grpc::GrpcFormat;
use tidegate::http::RateLimit;
use tidegate::tower::RateLimitLayer;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server as TonicServer};
use tonic::{Response, Status, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::support::Server;

pub(crate) const CHECK: &str = "/grpc.health.v1.Health/Check";
pub(crate) const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// The health service behind limits.
pub(crate) async fn serve(limits: impl Into<RateLimit>) -> Server {
    let layer = RateLimitLayer::new(limits).with_format(GrpcFormat);
    let (_, health) = tonic_health::server::health_reporter();
    let router = TonicServer::builder().layer(layer).add_service(health);
    Server::start(|listener| async move {
        router.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap();
    })
    .await
}

pub(crate) struct Client(HealthClient<Channel>);

impl Client {
    pub(crate) async fn connect(server: &Server) -> Self {
        let channel = Channel::from_shared(server.url("")).unwrap().connect().await.unwrap();
        Client(HealthClient::new(channel))
    }

    pub(crate) async fn check(&mut self) -> Result<Response<HealthCheckResponse>, Status> {
        self.0.check(HealthCheckRequest::default()).await
    }

    pub(crate) async fn watch(&mut self) -> Result<Response<Streaming<HealthCheckResponse>>, Status> {
        self.0.watch(HealthCheckRequest::default()).await
    }

    /// Returns the status of a denied unary call.
    pub(crate) async fn denied_status(&mut self) -> Status {
        self.check().await.expect_err("a denial")
    }
}

pub(crate) fn is_serving(response: &HealthCheckResponse) -> bool {
    response.status() == ServingStatus::Serving
}
